//! When two worlds count as alike for a search.

use std::hash::{DefaultHasher, Hasher};

use super::world::{CLIENTS, World};

impl World {
    /// A hash of the state of the servers, of who names whom, and of the locks.
    pub(super) fn outline(&self) -> u64 {
        let mut hash = DefaultHasher::new();
        for (at, server) in self.servers.iter().enumerate() {
            let node = at / self.setup.machines;
            let Some(view) = &server.view else {
                hash.write_u8(9);
                continue;
            };
            hash.write_u8(u8::from(server.active) + 2 * u8::from(server.is_old));
            if self.setup.work.is_some() {
                let kept = &server.kept;
                hash.write_u8(u8::from(kept.record.is_some()) + 2 * u8::from(kept.lacks.is_some()));
                hash.write_u8(u8::from(kept.claim.is_some()) + 2 * u8::from(kept.burnt));
            }
            if self.setup.drift > 0 {
                let now = self.server_now(node, at % self.setup.machines);
                hash.write_u16(server.key.map_or(0, |key| key.expires.saturating_sub(now)));
            }
            for (other, peer) in self.servers.iter().enumerate() {
                if let Some(peer) = &peer.view
                    && other / self.setup.machines != node
                {
                    hash.write_u8(u8::from(view.names(other / self.setup.machines, peer)));
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
