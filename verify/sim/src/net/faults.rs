//! What a plan does to the network, the servers and the clients' processes.

use std::io;

use super::{Net, Pace, Power, ServerHost, State, deliver::Event};
use crate::redis::{Condition, Role, Store, Value};

/// With which data a server comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Return {
    /// All that it had.
    Whole,
    /// None.
    Blank,
    /// Those of the oldest snapshot.
    Older,
    /// Another server with a copy of its data, and another history, answers under its name.
    Promoted,
}

impl Net {
    /// Blocks or opens the way of a client to a server, and the way back.
    pub fn block(&self, client: usize, server: usize, up: bool, down: bool) {
        self.with(|state, now| {
            let link = &mut state.links[client][server];
            (link.up.is_blocked, link.down.is_blocked) = (up, down);
            let mut freed = Vec::new();
            if !up {
                freed.append(&mut link.up.parked);
            }
            if !down {
                freed.append(&mut link.down.parked);
            }
            state.release(freed, now);
        });
    }

    /// Sets how fast both directions of a link are.
    pub fn set_pace(&self, client: usize, server: usize, pace: Pace) {
        self.with(|state, _| {
            let link = &mut state.links[client][server];
            (link.up.pace, link.down.pace) = (pace, pace);
        });
    }

    /// Ends a server's process. Its clients notice unless the machine is gone as well.
    pub fn crash(&self, server: usize, power: Power) {
        self.with(|state, now| {
            let host = &mut state.servers[server];
            (host.power, host.is_frozen) = (power, false);
            host.backlog.clear();
            if power == Power::Down {
                state.end_conns(now, |conn| conn == server, io::ErrorKind::UnexpectedEof);
            }
        });
    }

    /// Starts the server's next process.
    pub fn restart(&self, server: usize, with: Return) {
        self.with(|state, now| {
            let (run_id, replid) = (state.rng.hex40(), state.rng.hex40());
            let host = &mut state.servers[server];
            let store = match with {
                Return::Whole | Return::Promoted => host.server.store.clone(),
                Return::Blank => Store::default(),
                Return::Older => host.saved.first().cloned().unwrap_or_default(),
            };
            if with != Return::Whole && with != Return::Older {
                host.server.replid = replid;
            }
            host.server.restart(run_id, store);
            host.server.role = Role::Master;
            (host.power, host.is_frozen) = (Power::On, false);
            host.epoch += 1;
            host.backlog.clear();
            if with == Return::Promoted {
                state.end_conns(now, |conn| conn == server, io::ErrorKind::UnexpectedEof);
            }
        });
    }

    /// Saves the data of all servers.
    pub fn save(&self) {
        self.with(|state, _| state.servers.iter_mut().for_each(ServerHost::save));
    }

    /// Stops a server's process, or lets it continue with what it was sent.
    pub fn freeze(&self, server: usize, is_frozen: bool) {
        let trace = self.trace().clone();
        self.with(|state, now| {
            let host = &mut state.servers[server];
            host.is_frozen = is_frozen;
            if is_frozen {
                return;
            }
            let mut backlog = std::mem::take(&mut host.backlog);
            while !backlog.is_empty() {
                let next = state.rng.index(backlog.len());
                state.serve(backlog.swap_remove(next), now, &trace);
            }
        });
    }

    /// Sets what keeps a server from running commands.
    pub fn set_condition(&self, server: usize, condition: Condition) {
        self.with(|state, _| state.servers[server].server.condition = condition);
    }

    /// Sets a server's limit of memory in bytes.
    pub fn set_maxmemory(&self, server: usize, bytes: usize, policy: &str) {
        self.with(|state, _| {
            let server = &mut state.servers[server].server;
            (server.maxmemory, server.policy) = (bytes, policy.into());
        });
    }

    /// Makes a server a replica, which refuses writes, or a master.
    pub fn set_role(&self, server: usize, role: Role) {
        self.with(|state, _| state.servers[server].server.role = role);
    }

    /// Deletes all data of a server.
    pub fn flush(&self, server: usize) {
        self.with(|state, _| state.servers[server].server.store.clear());
    }

    /// Deletes one lock's key of a server, as an eviction does. Returns which.
    pub fn evict(&self, server: usize) -> Option<String> {
        self.with(|state, now| state.evict(server, &[server], now))
    }

    /// Deletes one lock's key of all servers. Returns which.
    pub fn evict_alike(&self) -> Option<String> {
        self.with(|state, now| {
            let all: Vec<_> = (0..state.servers.len()).collect();
            state.evict(state.rng.clone().index(all.len()), &all, now)
        })
    }

    /// Moves a server's clock.
    pub fn jump(&self, server: usize, micros: i64) {
        self.with(|state, _| state.servers[server].ahead += micros);
    }

    /// Ends a client's process. With `fin`, the system closes its connections; without, the machine is
    /// gone, and the servers notice when they give it up.
    pub fn end_client(&self, client: usize, fin: bool) {
        self.with(|state, now| {
            let generation = state.clients[client].generation;
            state.clients[client].generation += 1;
            let own = |conn: &super::Conn| conn.client == client && conn.generation == generation;
            let conns: Vec<_> =
                state.conns.iter().filter(|(_, conn)| own(conn)).map(|(id, _)| *id).collect();
            for id in conns {
                if fin {
                    state.send(now, Event::UpEnd(id));
                } else {
                    state.schedule(now + GIVEN_UP, Event::UpEnd(id));
                }
            }
        });
    }

    /// Returns the names of the lock keys of each server whose values are `wanted`.
    pub fn locks(&self, wanted: impl Fn(&[u8]) -> bool) -> Vec<Vec<String>> {
        self.servers(|host, now| {
            let millis = i64::try_from(now / 1_000).unwrap_or(i64::MAX);
            let store = &host.server.store;
            let is_wanted = |key: &[u8]| match store.get(key, millis) {
                Some(Value::Text(text)) => is_lock(key) && wanted(text),
                _ => false,
            };
            let keys = store.keys(millis).filter(|key| is_wanted(key));
            keys.map(|key| String::from_utf8_lossy(key).into_owned()).collect()
        })
    }

    /// Calls `read` with each server's machine and what its clock shows.
    pub fn servers<T>(&self, mut read: impl FnMut(&ServerHost, u64) -> T) -> Vec<T> {
        self.with(|state, now| {
            state.servers.iter().map(|host| read(host, host.clock(now))).collect()
        })
    }
}

/// When a server notices that a client's machine is gone, in µs.
const GIVEN_UP: u64 = 8_000_000;

/// Whether a key is a lock's.
fn is_lock(key: &[u8]) -> bool {
    key.windows(6).any(|part| part == b":lock:")
}

impl State {
    /// Deletes the key of a lock that server `of` stores from the servers `on`. Returns the key.
    fn evict(&mut self, of: usize, on: &[usize], now: u64) -> Option<String> {
        let millis = |host: &ServerHost| i64::try_from(host.clock(now) / 1_000).unwrap_or(i64::MAX);
        let host = &self.servers[of];
        let locks: Vec<_> =
            host.server.store.keys(millis(host)).filter(|key| is_lock(key)).collect();
        let key = locks.get(self.rng.index(locks.len())).map(|key| (*key).clone())?;
        for server in on {
            let host = &mut self.servers[*server];
            let millis = millis(host);
            host.server.store.delete(&key, millis);
        }
        Some(String::from_utf8_lossy(&key).into_owned())
    }

    /// Sends again what was kept: each connection after a time of its own, and in order. Some
    /// connections end instead.
    fn release(&mut self, parked: Vec<Event>, now: u64) {
        let mut waits = std::collections::BTreeMap::new();
        for event in parked {
            let id = event.conn();
            let rng = &mut self.rng;
            let wait = waits
                .entry(id)
                .or_insert_with(|| (!rng.chance(25)).then(|| rng.within(0, 400_000)));
            match *wait {
                Some(wait) => {
                    let Some(conn) = self.conns.get_mut(&id) else { continue };
                    let last = if event.is_up() { &mut conn.last_up } else { &mut conn.last_down };
                    *last = (now + wait).max(*last);
                    let at = *last;
                    self.schedule(at, event);
                }
                None => self.schedule(now, Event::DownEnd(id, io::ErrorKind::ConnectionReset)),
            }
        }
    }

    fn end_conns(&mut self, now: u64, of: impl Fn(usize) -> bool, how: io::ErrorKind) {
        let conns: Vec<_> =
            self.conns.iter().filter(|(_, conn)| of(conn.server)).map(|(id, _)| *id).collect();
        for id in conns {
            self.send(now, Event::DownEnd(id, how));
        }
    }
}
