//! The effects of a plan on the network, the servers and the clients' processes.

use std::{collections::BTreeMap, io, time::Duration};

use super::{Conn, Net, Pace, Power, ServerHost, State, deliver::Event};
use crate::redis::{Condition, ConnId, MasterReport, Role, Store, Value};

/// The data with which a server returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Return {
    /// All of its data.
    Whole,
    /// No data.
    Blank,
    /// The data of the oldest snapshot.
    Older,
    /// Another server with a copy of its data, and another history, answers under its name.
    Promoted,
}

impl Net {
    /// Blocks or opens the direction from a client to a server, and the direction back.
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

    /// Sets the pace of both directions of a link.
    pub fn set_pace(&self, client: usize, server: usize, pace: Pace) {
        self.with(|state, _| {
            let link = &mut state.links[client][server];
            (link.up.pace, link.down.pace) = (pace, pace);
        });
    }

    /// Makes each later connection of the client to the server arrive there twice, or once. If this
    /// is a change, its open connections end.
    pub fn double(&self, client: usize, server: usize, is_doubled: bool) {
        self.with(|state, now| {
            let link = &mut state.links[client][server];
            if link.is_doubled == is_doubled {
                return;
            }
            link.is_doubled = is_doubled;
            let is_theirs = |conn: &Conn| (conn.client, conn.server) == (client, server);
            state.end_conns(now, is_theirs, io::ErrorKind::ConnectionReset);
        });
    }

    /// Ends a server's process. Its clients are notified unless the machine is gone as well.
    pub fn crash(&self, server: usize, power: Power) {
        self.with(|state, now| {
            let host = &mut state.servers[server];
            (host.power, host.is_frozen) = (power, false);
            host.backlog.clear();
            if power == Power::Down {
                state.end_conns(now, |conn| conn.server == server, io::ErrorKind::UnexpectedEof);
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
                state.end_conns(now, |conn| conn.server == server, io::ErrorKind::UnexpectedEof);
            }
        });
    }

    /// Makes a replica the master of its name, with the data of its former master. With `loses`,
    /// the replica lacks the writes after the last snapshot. The former master continues.
    pub fn promote(&self, master: usize, replica: usize, loses: bool) {
        self.with(|state, now| {
            let replid = state.rng.hex40();
            let former = &state.servers[master];
            let saved = former.saved.last().filter(|_| loses);
            let store = saved.unwrap_or(&former.server.store).clone();
            let host = &mut state.servers[replica];
            host.server.store = store;
            (host.server.replid, host.server.role) = (replid, Role::Master);
            // These are snapshots of earlier data.
            host.saved.clear();
            state.end_conns(now, |conn| conn.server == replica, io::ErrorKind::UnexpectedEof);
        });
    }

    /// Sets the master of a name that a Sentinel reports.
    pub fn set_master(&self, sentinel: usize, name: &str, report: MasterReport) {
        self.with(|state, _| {
            state.servers[sentinel].server.reports.insert(name.to_owned(), report);
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

    /// Sets the condition that keeps a server from running commands.
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

    /// Deletes one lock's key of a server, like an eviction. Returns the key.
    pub fn evict(&self, server: usize) -> Option<String> {
        self.with(|state, now| state.evict(server, &[server], now, |_| true))
    }

    /// Deletes one lock's key of all servers, if one is `wanted`. Returns the key.
    pub fn evict_alike(&self, wanted: impl Fn(&str) -> bool) -> Option<String> {
        self.with(|state, now| {
            let all: Vec<_> = (0..state.servers.len()).collect();
            let of = state.rng.index(all.len());
            state.evict(of, &all, now, wanted)
        })
    }

    /// Moves a server's clock.
    pub fn jump(&self, server: usize, micros: i64) {
        self.with(|state, _| state.servers[server].ahead += micros);
    }

    /// Ends a client's process. With `fin`, the system closes its connections. Without it, the
    /// machine is gone, and the servers detect that after a timeout.
    pub fn end_client(&self, client: usize, fin: bool) {
        self.with(|state, now| {
            let generation = state.clients[client].generation;
            state.clients[client].generation += 1;
            let own = |conn: &Conn| conn.client == client && conn.generation == generation;
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

    /// Returns the names of the lock keys of each server whose values are `wanted`, or of shared
    /// ones the value of a lease that has not ended.
    pub fn locks(&self, wanted: impl Fn(&[u8]) -> bool) -> Vec<Vec<String>> {
        self.servers(|host, now| {
            let millis = i64::try_from(now / 1_000).unwrap_or(i64::MAX);
            let store = &host.server.store;
            let is_wanted = |key: &[u8]| match store.get(key, millis) {
                Some(Value::Text(text)) => is_lock(key) && wanted(text),
                #[allow(clippy::cast_precision_loss)]
                Some(Value::Sorted(leases)) => {
                    let is_left =
                        |(lease, ends): (&Vec<u8>, &f64)| wanted(lease) && *ends > millis as f64;
                    is_lock(key) && leases.iter().any(is_left)
                }
                _ => false,
            };
            let keys = store.keys(millis).filter(|key| is_wanted(key));
            keys.map(|key| String::from_utf8_lossy(key).into_owned()).collect()
        })
    }

    /// Calls `read` with each server's machine and its clock's time.
    pub fn servers<T>(&self, mut read: impl FnMut(&ServerHost, u64) -> T) -> Vec<T> {
        self.with(|state, now| {
            state.servers.iter().map(|host| read(host, host.clock(now))).collect()
        })
    }
}

/// Time after which a server detects that a client's machine is gone, in µs.
const GIVEN_UP: u64 = 8_000_000;

/// Maximum additional delay of a segment on a twin, compared with the first connection.
pub const LAG: Duration = Duration::from_secs(2);

/// Whether a key is a lock's.
fn is_lock(key: &[u8]) -> bool {
    key.windows(6).any(|part| part == b":lock:")
}

impl State {
    /// Deletes a `wanted` key of a lock that server `of` stores from the servers `on`. Returns the key.
    fn evict(
        &mut self,
        of: usize,
        on: &[usize],
        now: u64,
        wanted: impl Fn(&str) -> bool,
    ) -> Option<String> {
        let millis = |host: &ServerHost| i64::try_from(host.clock(now) / 1_000).unwrap_or(i64::MAX);
        let host = &self.servers[of];
        let is_wanted = |key: &&Vec<u8>| is_lock(key) && wanted(&String::from_utf8_lossy(key));
        let locks: Vec<_> = host.server.store.keys(millis(host)).filter(is_wanted).collect();
        let key = locks.get(self.rng.index(locks.len())).map(|key| (*key).clone())?;
        for server in on {
            let host = &mut self.servers[*server];
            let millis = millis(host);
            host.server.store.delete(&key, millis);
        }
        Some(String::from_utf8_lossy(&key).into_owned())
    }

    /// Resends the kept messages: each connection after its own delay, and in order. Some
    /// connections end instead.
    fn release(&mut self, parked: Vec<Event>, now: u64) {
        let mut by_direction = BTreeMap::<_, Vec<Event>>::new();
        for event in parked {
            by_direction.entry((event.conn(), event.is_up())).or_default().push(event);
        }
        for ((id, is_up), kept) in by_direction {
            // Messages in flight stay after the kept ones.
            let on_way = self.take_on_way(id, is_up);
            let Some(conn) = self.conns.get_mut(&id) else { continue };
            if self.rng.chance(25) {
                // The server's process has no record of the connection any more.
                conn.epoch = 0;
                self.servers[conn.server].server.closed(id);
                self.schedule(now, Event::DownEnd(id, io::ErrorKind::ConnectionReset));
                continue;
            }
            let at = now + self.rng.within(0, 400_000);
            let last = if is_up { &mut conn.last_up } else { &mut conn.last_down };
            *last = at.max(*last);
            let kept = kept.into_iter().map(|event| (at, event));
            for (due, event) in kept.chain(on_way) {
                self.schedule(due.max(at), event);
            }
        }
    }

    /// Removes and returns the messages in flight over a connection in this direction, with their
    /// arrival times.
    fn take_on_way(&mut self, id: ConnId, is_up: bool) -> Vec<(u64, Event)> {
        let is_meant = |event: &Event| event.conn() == id && event.is_up() == is_up;
        let meant = self.queue.iter().filter(|(_, event)| is_meant(event));
        let keys: Vec<_> = meant.map(|(key, _)| *key).collect();
        let take = |key: (u64, u64)| self.queue.remove(&key).map(|event| (key.0, event));
        keys.into_iter().filter_map(take).collect()
    }

    /// Opens the twin of a new connection, if its link doubles connections. The client's bytes
    /// arrive there again, up to [`LAG`] later, and in order.
    pub(super) fn double(&mut self, now: u64, id: ConnId) {
        let Some(Conn { client, generation, server, .. }) = self.conns.get(&id) else { return };
        if !self.links[*client][*server].is_doubled {
            return;
        }
        let most = u64::try_from(LAG.as_micros()).unwrap_or(u64::MAX);
        let lag = [most / 100, most][self.rng.index(2)];
        let twin = Conn { lag, ..Conn::new(*client, *generation, *server) };
        let number = self.next;
        self.next += 1;
        self.conns.insert(number, twin);
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.twin = Some(number);
        }
        self.send(now, Event::Syn(number));
    }

    fn end_conns(&mut self, now: u64, of: impl Fn(&Conn) -> bool, how: io::ErrorKind) {
        let conns: Vec<_> =
            self.conns.iter().filter(|(_, conn)| of(conn)).map(|(id, _)| *id).collect();
        for id in conns {
            self.send(now, Event::DownEnd(id, how));
        }
    }
}
