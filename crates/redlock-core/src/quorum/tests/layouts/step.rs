//! The steps of the layouts.

use super::{moving::Operator, state::Layouts};
use crate::quorum::tests::names::{
    step::NamesStep,
    world::{CLIENTS, ModelServer},
};

/// One step. `layout`, `operator`, `client`, `node`: indices; `name`: of a server in any layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LayoutStep {
    Tick,
    /// A client of one layout, or its connection.
    In {
        layout: usize,
        step: NamesStep,
    },
    /// A name leads to another machine: for all, or for a client of one layout.
    Move {
        of: Option<(usize, usize)>,
        name: usize,
        machine: usize,
    },
    Restart {
        name: usize,
        machine: usize,
        keeps_data: bool,
    },
    /// An operator begins; what it did before is over.
    LeaseCommand {
        operator: usize,
        plan: usize,
    },
    /// It moves a server that it reaches by the old layout.
    TakeOld {
        operator: usize,
        node: usize,
    },
    /// It continues, as enough were moved.
    Proceed {
        operator: usize,
    },
    /// It begins the probation of a server that it reaches by the new layout.
    TakeNew {
        operator: usize,
        node: usize,
    },
    /// A client moves a server of another layout into its own.
    TakeOver {
        layout: usize,
        client: usize,
        node: usize,
    },
    /// A client begins the probation of a server that was taken over.
    StartMoved {
        layout: usize,
        client: usize,
        node: usize,
    },
}

impl Layouts {
    /// Does one step; false if it can't be done now, or changes nothing.
    pub(super) fn apply(&mut self, step: LayoutStep) -> bool {
        let done = match step {
            LayoutStep::Tick => {
                self.worlds.iter_mut().for_each(|world| world.now += 1);
                true
            }
            LayoutStep::In { layout, step } => {
                let may = self.started & 1 << layout != 0;
                let done = may && self.worlds[layout].apply(step);
                if done {
                    self.share(layout);
                }
                done
            }
            LayoutStep::Move { of, name, machine } => self.move_name(of, name, machine),
            LayoutStep::Restart { name, machine, keeps_data } => {
                self.restart(name, machine, keeps_data)
            }
            LayoutStep::LeaseCommand { operator, plan } => self.command(operator, plan),
            LayoutStep::TakeOld { operator, node } => self.take_old(operator, node),
            LayoutStep::Proceed { operator } => self.proceed(operator),
            LayoutStep::TakeNew { operator, node } => self.take_new(operator, node),
            LayoutStep::TakeOver { layout, client, node } => self.take_over(layout, client, node),
            LayoutStep::StartMoved { layout, client, node } => {
                self.start_moved(layout, client, node)
            }
        };
        if done {
            self.watch();
        }
        done
    }

    /// Returns whether each name of a layout leads all its clients to the one server that they are
    /// connected to.
    pub(super) fn is_steady(&self, layout: usize) -> bool {
        let world = &self.worlds[layout];
        world.names().all(|node| {
            let machine = world.leads[0][node];
            world.leads.iter().all(|leads| leads[node] == machine)
                && world.drivers.iter().all(|driver| driver.conn[node].is_none_or(|m| m == machine))
        })
    }

    /// A layout that is whole has begun.
    fn end_beginnings(&mut self) {
        for layout in 0..self.worlds.len() {
            let world = &self.worlds[layout];
            if self.beginning & 1 << layout != 0 && world.names().all(|node| world.is_settled(node))
            {
                self.beginning &= !(1 << layout);
                self.disturbed = 0;
                let of = |operator: &&mut Operator| operator.to == layout;
                self.operators.iter_mut().filter(of).for_each(|o| *o = Operator::default());
            }
        }
    }

    /// Returns whether a name may move or restart.
    fn may_disturb(&mut self, name: usize, moves: bool) -> bool {
        self.end_beginnings();
        if moves && self.beginning != 0 {
            return false;
        }
        let disturbed = self.disturbed | 1 << name;
        let may = disturbed.count_ones() <= self.plan.at_once;
        if may {
            self.disturbed = disturbed;
        }
        may
    }

    fn move_name(&mut self, of: Option<(usize, usize)>, name: usize, machine: usize) -> bool {
        if self.worlds[0].left.moves == 0 {
            return false;
        }
        let mut led = Vec::new();
        for layout in 0..self.worlds.len() {
            let Some(node) = self.node_in(layout, name) else { continue };
            for client in 0..CLIENTS {
                let is_led = of.is_none_or(|of| of == (layout, client));
                if is_led && self.worlds[layout].leads[client][node] != machine {
                    led.push((layout, client, node));
                }
            }
        }
        if led.is_empty() || !self.may_disturb(name, true) {
            return false;
        }
        self.worlds[0].left.moves -= 1;
        for (layout, client, node) in led {
            self.worlds[layout].leads[client][node] = machine;
        }
        true
    }

    fn restart(&mut self, name: usize, machine: usize, keeps_data: bool) -> bool {
        let left = &self.worlds[0].left;
        let left = if keeps_data { left.restarts } else { left.blank_restarts };
        let at = name * self.plan.setup.machines + machine;
        if left == 0 || self.tags[at].is_none() || !self.may_disturb(name, false) {
            return false;
        }
        let faults = &mut self.worlds[0].left;
        if keeps_data {
            faults.restarts -= 1;
        } else {
            faults.blank_restarts -= 1;
            self.tags[at] = None;
            self.groups.iter_mut().for_each(|group| group.servers &= !(1 << at));
        }
        for layout in 0..self.worlds.len() {
            let Some(node) = self.node_in(layout, name) else { continue };
            let world = &mut self.worlds[layout];
            let server = world.server_mut(node, machine);
            server.run += 1;
            if !keeps_data {
                *server = ModelServer { run: server.run, ..ModelServer::default() };
            }
            world.disconnect(node, machine);
        }
        true
    }
}
