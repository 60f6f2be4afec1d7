//! Hashes of a world: one that is the same under any order of names and clients, and a coarse one.

use std::hash::{DefaultHasher, Hasher};

use super::{
    activation::Activation,
    client_view::{ClientView, ServerRead},
    world::{CLIENTS, NAMES, NamesWorld, Tick},
};
use crate::protocol::views::{Incarnation, View};

/// Returns the least hash of a world under any order of its names and clients. For worlds without
/// locks, whose clocks agree.
pub(crate) fn fingerprint(world: &NamesWorld) -> u64 {
    const CLIENT_ORDERS: [[usize; CLIENTS]; 2] = [[0, 1], [1, 0]];
    let orders = orders(world.setup.names);
    let keys = orders.iter().flat_map(|names| {
        CLIENT_ORDERS.iter().map(move |clients| {
            let mut places = [0; NAMES];
            names.iter().enumerate().for_each(|(place, &node)| places[node] = place);
            StateKey { world, names, places, hash: 0 }.world(clients)
        })
    });
    keys.min().expect("there is an order")
}

/// All orders of so many names.
fn orders(names: usize) -> Vec<Vec<usize>> {
    let Some(last) = names.checked_sub(1) else { return vec![Vec::new()] };
    let insert = |order: &[usize], at: usize| [&order[..at], &[last], &order[at..]].concat();
    let shorter = orders(last);
    shorter.iter().flat_map(|order| (0..names).map(move |at| insert(order, at))).collect()
}

/// Hashes a world with its names in some order.
struct StateKey<'a> {
    world: &'a NamesWorld,
    /// The name at each place.
    names: &'a [usize],
    /// The place of each name.
    places: [usize; NAMES],
    hash: u64,
}

impl StateKey<'_> {
    fn world(mut self, clients: &[usize; CLIENTS]) -> u64 {
        let (world, names) = (self.world, self.names);
        self.add(world.now.into());
        for &node in names {
            for machine in 0..world.setup.machines {
                let server = world.server(node, machine);
                self.add(server.run.into());
                self.add(server.active.into());
                self.option(server.view.as_deref(), Self::view);
            }
            self.nodes(|other| world.changed_during[node] & (1 << other) != 0);
        }
        let left = &world.left;
        let changes = [left.moves, left.promotions, left.blank_restarts, left.restarts];
        for left in changes.into_iter().chain([left.crashes, left.cuts]) {
            self.add(left.into());
        }
        for &client in clients {
            for &node in names {
                self.add(world.leads[client][node]);
            }
            self.driver(&world.drivers[client]);
        }
        self.groups();
        self.hash
    }

    fn groups(&mut self) {
        let machines = self.world.setup.machines;
        let mut groups: Vec<_> = Vec::with_capacity(self.world.groups.len());
        for group in &self.world.groups {
            let bits = 0..self.names.len() * machines;
            let here = bits.filter(|at| group.servers & (1 << at) != 0);
            let moved = here.map(|at| self.places[at / machines] * machines + at % machines);
            groups.push((moved.map(|at| 1_usize << at).sum::<usize>(), group.last));
        }
        groups.sort_unstable();
        for (servers, last) in groups {
            self.add(servers);
            self.add(last.into());
        }
    }

    fn driver(&mut self, driver: &ClientView) {
        for &node in self.names {
            self.option(driver.conn[node], StateKey::add);
            self.add(driver.in_sight[node].into());
            // It is read only of nodes out of sight.
            let out = (!driver.in_sight[node]).then_some(driver.out_since[node]);
            self.option(out, Self::tick);
            self.option(driver.reads[node].as_ref(), Self::read);
            self.option(driver.starting[node], |key, (incarnation, at)| {
                key.incarnation(incarnation);
                key.tick(at);
            });
            self.option(driver.highest[node], Self::incarnation);
            self.option(driver.timers[node], |key, timer| {
                key.incarnation(timer.incarnation);
                key.tick(timer.seen);
                key.option(timer.voters, Self::tick);
                key.option(timer.starters, Self::tick);
                key.add(timer.bootstrapped.into());
            });
            self.option(driver.displaced[node], |key, displaced| {
                key.incarnation(displaced.incarnation);
                key.tick(displaced.since);
                key.add(displaced.reopened.into());
            });
        }
        self.option(driver.task.as_ref(), Self::task);
    }

    fn task(&mut self, task: &Activation) {
        self.add(self.places[task.node]);
        self.add(task.bootstrap.into());
        self.add(task.machine);
        self.view(&task.view);
        for &node in self.names {
            self.option(task.witnesses[node].as_ref(), Self::read);
        }
        self.nodes(|node| task.learnt[node]);
    }

    fn read(&mut self, read: &ServerRead) {
        self.add(read.machine);
        self.add(read.active.into());
        self.view(&read.view);
    }

    fn view(&mut self, view: &View) {
        for &node in self.names {
            self.option(view[node], Self::incarnation);
        }
    }

    /// Its nonce tells no two apart whose epochs and runs are the same.
    fn incarnation(&mut self, incarnation: Incarnation) {
        let at = usize::try_from(incarnation.id / 256).expect("there are few servers");
        let machines = self.world.setup.machines;
        self.add(self.places[at / machines] * machines + at % machines);
        self.add((incarnation.id % 256) as usize);
        self.add(incarnation.epoch as usize);
    }

    /// One round of the finalizer of `MurmurHash3` for each word (A. Appleby, 2011): the standard
    /// hasher takes five times as long.
    fn add(&mut self, word: usize) {
        self.hash = (self.hash ^ word as u64).wrapping_mul(0xff51_afd7_ed55_8ccd);
        self.hash ^= self.hash >> 32;
    }

    fn tick(&mut self, tick: Tick) {
        self.add(tick.into());
    }

    fn nodes(&mut self, is_one: impl Fn(usize) -> bool) {
        for &node in self.names {
            self.add(is_one(node).into());
        }
    }

    fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.add(value.is_some().into());
        if let Some(value) = value {
            write(self, value);
        }
    }
}

impl NamesWorld {
    /// A hash of the state of the servers, of who knows whom, and of the locks.
    pub(crate) fn outline(&self) -> u64 {
        let mut hash = DefaultHasher::new();
        for (at, server) in self.servers.iter().enumerate() {
            let node = at / self.setup.machines;
            let Some(view) = &server.view else {
                hash.write_u8(9);
                continue;
            };
            hash.write_u8(u8::from(server.active));
            if self.setup.work.is_some() {
                let kept = &server.kept;
                hash.write_u8(u8::from(kept.record.is_some()) + 2 * u8::from(kept.lacks.is_some()));
                hash.write_u8(u8::from(kept.claim.is_some()) + 2 * u8::from(kept.assumed_run));
            }
            if self.setup.drift > 0 {
                let now = self.server_now(node, at % self.setup.machines);
                hash.write_u16(server.key.map_or(0, |key| key.expires.saturating_sub(now)));
            }
            for (other, peer) in self.servers.iter().enumerate() {
                if let Some(peer) = &peer.view
                    && other / self.setup.machines != node
                {
                    let of = other / self.setup.machines;
                    hash.write_u8(u8::from(view[of] == peer[of]));
                }
            }
        }
        for client in 0..CLIENTS {
            let lease = self.leases[client].as_ref();
            let (now, ttl) = (self.client_now(client), self.setup.ttl);
            if let Some(lease) = lease.filter(|lease| now < lease.started + ttl) {
                hash.write_u16(lease.until.map_or(9, |until| until.saturating_sub(now)));
                for (node, grant) in lease.grants.iter().enumerate() {
                    if grant.is_some() {
                        hash.write_usize(lease.targets[node].map_or(9, |machine| machine));
                    } else {
                        hash.write_u8(8);
                    }
                }
            } else {
                hash.write_u8(7);
            }
            if let Some(job) = &self.jobs[client] {
                hash.write_u8(job.phase as u8);
                job.told.iter().for_each(|told| hash.write_u8(u8::from(told.is_some())));
            }
            let driver = &self.drivers[client];
            for timer in driver.timers.iter().flatten() {
                for since in [timer.voters, timer.starters] {
                    hash.write_u16(since.map_or(9, |since| (now - since).min(ttl)));
                }
            }
            hash.write_u8(u8::from(driver.task.is_some()));
        }
        hash.finish()
    }
}
