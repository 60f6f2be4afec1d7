//! The faults in effect: the plan has the intended ones, the ledger the actual ones.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use crate::fault::Fault;
use crate::trial::{MOST_FAULTY, PREFIX};
use tower_redlock_verify::standing::votes;

#[derive(Debug)]
pub(crate) struct Ledger {
    /// Whether servers report whether they vote.
    is_guarded: bool,
    entries: Mutex<Vec<Entry>>,
}

#[derive(Debug)]
struct Entry {
    server: SocketAddr,
    /// Whether a fault is in progress.
    busy: bool,
    /// Whether the fault is not over, or ended too recently.
    faulty: Faulty,
}

#[derive(Clone, Copy, Debug)]
enum Faulty {
    No,
    During,
    Until(Instant),
}

impl Ledger {
    pub(crate) fn new(servers: &[SocketAddr], is_guarded: bool) -> Self {
        let entry = |&server| Entry { server, busy: false, faulty: Faulty::No };
        Self { is_guarded, entries: Mutex::new(servers.iter().map(entry).collect()) }
    }

    /// Returns whether the fault may begin: not while another one is in progress on this server,
    /// nor if a majority would not be left. The plan ensures that, but it may have allotted too
    /// little time to a fault.
    pub(crate) fn begin(&self, server: usize, fault: &Fault) -> bool {
        let mut entries = self.entries();
        let concerned = fault.concerns(server);
        if concerned.iter().any(|&server| entries[server].busy) {
            return false;
        }
        if fault.makes_faulty() {
            entries.iter_mut().for_each(|entry| entry.look(self.is_guarded));
            let others = entries.iter().enumerate().filter(|(index, _)| !concerned.contains(index));
            let faulty = others.filter(|(_, entry)| entry.is_faulty()).count();
            if faulty + concerned.len() > MOST_FAULTY {
                return false;
            }
        }
        for server in concerned {
            entries[server].busy = true;
            if fault.makes_faulty() {
                entries[server].faulty = Faulty::During;
            }
        }
        true
    }

    /// Records that the fault has ended, and that the server counts as faulty until `until`.
    pub(crate) fn end(&self, server: usize, fault: &Fault, until: Instant) {
        let mut entries = self.entries();
        for server in fault.concerns(server) {
            entries[server].busy = false;
            if fault.makes_faulty() {
                entries[server].faulty = Faulty::Until(until);
            }
        }
    }

    /// Prevents faults of an idle server meanwhile.
    pub(crate) fn while_idle(&self, server: usize, act: impl FnOnce()) {
        if self.begin(server, &Fault::Disconnect) {
            act();
            self.end(server, &Fault::Disconnect, Instant::now());
        }
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().expect("nobody panics with it")
    }
}

impl Entry {
    /// A server recovers with time, unless it reports that it does not vote yet.
    fn look(&mut self, is_guarded: bool) {
        if let Faulty::Until(until) = self.faulty
            && until <= Instant::now()
            && !self.busy
            && (!is_guarded || votes(self.server, PREFIX))
        {
            self.faulty = Faulty::No;
        }
    }

    fn is_faulty(&self) -> bool {
        !matches!(self.faulty, Faulty::No)
    }
}
