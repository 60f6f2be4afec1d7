//! The faults, and how many of them may come at once.

use std::sync::Arc;

use super::{
    client_view::ClientView,
    work::WorkKind,
    world::{CLIENTS, ModelServer, NAMES, NamesWorld},
};

/// How many faults of each kind may come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FaultBudget {
    pub(crate) moves: u8,
    pub(crate) blank_restarts: u8,
    pub(crate) restarts: u8,
    pub(crate) crashes: u8,
    pub(crate) cuts: u8,
    /// Ticks that clocks gain.
    pub(crate) gains: u8,
    /// Replicas that take the place of their masters.
    pub(crate) promotions: u8,
}

impl NamesWorld {
    /// Returns whether a change of a name is over: its server is sound, none of the name was
    /// enrolled after it or is about to be, and no client is connected to one that does not vote.
    pub(crate) fn is_settled(&self, node: usize) -> bool {
        let machine = self.leads[0][node];
        let incarnation = |machine| self.own(node, machine);
        let votes = |machine| self.is_enrolled(node, machine) && self.server(node, machine).active;
        let mut machines = 0..self.setup.machines;
        let lacks = self.setup.work == Some(WorkKind::Once)
            && self.server(node, machine).kept.lacks.is_some();
        self.is_sound(node)
            && (!lacks || self.setup.changes_while_copying)
            && self.drivers.iter().all(|driver| driver.conn[node].is_none_or(votes))
            && machines.all(|other| incarnation(other) <= incarnation(machine))
    }

    /// Returns whether each name leads all clients to the one server that was ever enrolled under
    /// it and did not forget.
    fn former_servers_are_gone(&self) -> bool {
        let is_led_to = |node: usize, machine: usize| self.leads[0][node] == machine;
        let kept = self.servers.iter().enumerate().filter(|(_, server)| server.view.is_some());
        let mut kept = kept.map(|(at, _)| (at / self.setup.machines, at % self.setup.machines));
        let mut conns = self.drivers.iter().flat_map(|driver| driver.conn.iter().enumerate());
        self.leads.iter().all(|leads| *leads == self.leads[0])
            && kept.all(|(node, machine)| is_led_to(node, machine))
            && conns.all(|(node, conn)| conn.is_none_or(|machine| is_led_to(node, machine)))
    }

    /// Takes note of a fault of a name, if it is within the limits: few names change during the
    /// change of any one; or nothing moves, and all servers that are in probation, or will be, are
    /// the only ones of their names.
    fn may_disturb(&mut self, node: usize, moves: bool) -> bool {
        if self.setup.is_layout {
            return true;
        }
        let is_changing = |&other: &usize| other == node || !self.is_settled(other);
        let changing: Vec<_> = self.names().filter(is_changing).collect();
        let bits: u8 = changing.iter().map(|&name| 1 << name).sum();
        let was_settled = self.is_settled(node);
        let during = |&name: &usize| {
            bits | if name == node && was_settled { 0 } else { self.changed_during[name] }
        };
        let within = |name| during(name).count_ones() as usize <= self.setup.at_once;
        // Servers that all restart are a new set, which may have lost records.
        let is_new_set =
            !moves && self.former_servers_are_gone() && self.setup.work != Some(WorkKind::Once);
        if !changing.iter().all(within) && !is_new_set {
            return false;
        }
        let mut changed_during = [0; NAMES];
        for name in &changing {
            changed_during[*name] = during(name);
        }
        self.changed_during = changed_during;
        true
    }

    pub(crate) fn move_name(&mut self, client: Option<usize>, node: usize, machine: usize) -> bool {
        if self.left.moves == 0 || (client.is_some() && !self.setup.split_lookups) {
            return false;
        }
        let clients = client.map_or(0..CLIENTS, |client| client..client + 1);
        let same = clients.clone().all(|client| self.leads[client][node] == machine);
        if same || !self.may_disturb(node, true) {
            return false;
        }
        self.left.moves -= 1;
        clients.for_each(|client| self.leads[client][node] = machine);
        true
    }

    /// A replica of the server that a client's look-ups lead to takes its place, as Sentinels or a
    /// Cluster decide it: it has the former server's data, perhaps without the latest writes, and
    /// is another run. The former server continues. `None`: all clients learn of it.
    pub(crate) fn promote(
        &mut self,
        client: Option<usize>,
        node: usize,
        machine: usize,
        lags: bool,
    ) -> bool {
        if self.left.promotions == 0 || (client.is_some() && !self.setup.split_lookups) {
            return false;
        }
        let clients = client.map_or(0..CLIENTS, |client| client..client + 1);
        let former = self.leads[clients.start][node];
        if former == machine
            || self.server(node, former).view.is_none()
            || !self.may_disturb(node, true)
        {
            return false;
        }
        self.left.promotions -= 1;
        let run = self.server(node, machine).run + 1;
        let mut promoted = ModelServer { run, ..self.server(node, former).clone() };
        if lags {
            (promoted.key, promoted.fence) = (None, 0);
            if let Some(view) = &mut promoted.view {
                let own = view[node];
                let view = Arc::make_mut(view);
                view.fill(None);
                view[node] = own;
            }
        }
        *self.server_mut(node, machine) = promoted;
        self.forget_in_groups(node * self.setup.machines + machine);
        self.disconnect(node, machine);
        clients.for_each(|client| self.leads[client][node] = machine);
        true
    }

    pub(crate) fn restart(&mut self, node: usize, machine: usize, keeps_data: bool) -> bool {
        let left = if keeps_data { &mut self.left.restarts } else { &mut self.left.blank_restarts };
        if *left == 0 || self.server(node, machine).view.is_none() || !self.may_disturb(node, false)
        {
            return false;
        }
        if keeps_data {
            self.left.restarts -= 1;
        } else {
            self.left.blank_restarts -= 1;
        }
        let server = self.server_mut(node, machine);
        server.run += 1;
        if !keeps_data {
            *server = ModelServer { run: server.run, ..ModelServer::default() };
            self.forget_in_groups(node * self.setup.machines + machine);
        }
        self.disconnect(node, machine);
        true
    }

    /// All connections to a server end, and what was sent over them is lost.
    pub(crate) fn disconnect(&mut self, node: usize, machine: usize) {
        for client in 0..CLIENTS {
            if self.drivers[client].conn[node] == Some(machine) {
                let now = self.client_now(client);
                self.drivers[client].lose(node, now);
            }
            if let Some(lease) = &mut self.leases[client]
                && lease.targets[node] == Some(machine)
            {
                lease.targets[node] = None;
            }
            if let Some(job) = &mut self.jobs[client] {
                job.lose(node, machine);
            }
        }
    }

    pub(crate) fn crash(&mut self, client: usize) -> bool {
        if self.left.crashes == 0 {
            return false;
        }
        self.left.crashes -= 1;
        self.drivers[client] = ClientView::new(self.client_now(client));
        self.leases[client] = None;
        self.jobs[client] = None;
        self.copies[client] = None;
        self.known[client] = 0;
        true
    }

    pub(crate) fn cut(&mut self, client: usize, node: usize) -> bool {
        if self.left.cuts == 0 || self.drivers[client].conn[node].is_none() {
            return false;
        }
        self.left.cuts -= 1;
        let now = self.client_now(client);
        self.drivers[client].lose(node, now);
        true
    }
}
