//! How servers are moved: by operators, and by clients that find servers in no use.

use std::sync::Arc;

use super::state::{LayoutTag, Layouts};
use crate::{
    membership::other_sets::blocking,
    protocol::{
        formulas::quorum,
        views::{View, largest_group},
    },
    quorum::tests::names::{
        rule::RulePart,
        world::{ModelDeparture, ModelServer, PerName},
    },
};

/// A command that moves servers from one layout to another; it may end at any step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Operator {
    pub(super) from: usize,
    pub(super) to: usize,
    /// The servers of the old layout that it moved.
    pub(super) taken: PerName<bool>,
    /// The views under which these servers left.
    left: PerName<Option<Arc<View>>>,
    /// The greatest fence that they reported.
    fence: u16,
    /// Enough left: the servers of the new layout begin their probation.
    pub(super) enough: bool,
    pub(super) restarted: PerName<bool>,
}

impl Operator {
    /// Returns the number of moved servers that voted under one view.
    fn group_that_left(&self) -> usize {
        largest_group(self.left.iter().filter(|left| left.is_some()).map(Option::as_ref)).0
    }
}

/// The state of a moved server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MovedState {
    Moved,
    /// Moved by a client.
    TakenOver,
    Probation,
}

impl Layouts {
    pub(super) fn command(&mut self, operator: usize, plan: usize) -> bool {
        if self.commands == 0 {
            return false;
        }
        self.commands -= 1;
        let (from, to) = self.plan.moves[plan];
        self.operators[operator] = Operator { from, to, ..Operator::default() };
        true
    }

    pub(super) fn take_old(&mut self, operator: usize, node: usize) -> bool {
        let Operator { from, to, taken, enough, .. } = self.operators[operator].clone();
        if from == to || enough || node >= self.plan.layouts[from].len() || taken[node] {
            return false;
        }
        let Some(machine) = self.worlds[from].drivers[operator].conn[node] else { return false };
        let at = self.server_at(from, node, machine);
        if !self.take(at, Some(from), to, MovedState::Moved, 0) {
            return false;
        }
        let server = self.worlds[from].server(node, machine);
        let (left, fence) = (server.left.clone(), server.fence);
        let command = &mut self.operators[operator];
        command.taken[node] = true;
        command.left[node] =
            left.filter(|left| left.layout == from && left.node == node).and_then(|left| left.view);
        command.fence = command.fence.max(fence);
        true
    }

    /// Enough servers left the old layout; the others did not answer.
    pub(super) fn proceed(&mut self, operator: usize) -> bool {
        let command = &self.operators[operator];
        if command.from == command.to || command.enough || !self.is_steady(command.to) {
            return false;
        }
        let (group, taken) = (command.group_that_left(), command.taken);
        let taken = taken.iter().filter(|taken| **taken).count();
        let left = if self.has(RulePart::Leaving) { group } else { taken };
        let all = taken == self.plan.layouts[command.from].len();
        let (enough, to) = (all || left >= self.enough(command.from), command.to);
        self.operators[operator].enough = enough;
        self.beginning |= u32::from(enough) << to;
        enough
    }

    /// Returns the number of servers that have to leave a layout.
    fn enough(&self, layout: usize) -> usize {
        let names = self.plan.layouts[layout].len();
        blocking(names) - usize::from(!self.has(RulePart::EnoughLeave))
    }

    pub(super) fn take_new(&mut self, operator: usize, node: usize) -> bool {
        let Operator { from, to, enough, restarted, fence, .. } = self.operators[operator].clone();
        if !enough || !self.is_steady(to) || node >= self.plan.layouts[to].len() || restarted[node]
        {
            return false;
        }
        let Some(machine) = self.worlds[to].drivers[operator].conn[node] else { return false };
        let at = self.server_at(to, node, machine);
        let restarted = &mut self.operators[operator].restarted;
        restarted[node] = true;
        let count = restarted.iter().filter(|restarted| **restarted).count();
        self.started |= u32::from(count >= quorum(self.plan.layouts[to].len())) << to;
        let fence = if self.has(RulePart::LeftFences) { fence } else { 0 };
        self.take(at, Some(from), to, MovedState::Probation, fence)
    }

    /// A client moves a server of an unused layout into its own. In the model it does not wait
    /// before, because the wait only protects a set in use from being stopped.
    pub(super) fn take_over(&mut self, layout: usize, client: usize, node: usize) -> bool {
        let driver = &self.worlds[layout].drivers[client];
        let Some(machine) = driver.conn[node].filter(|_| driver.elsewhere[node]) else {
            return false;
        };
        let at = self.server_at(layout, node, machine);
        let from = self.tags[at].map(|tag| tag.layout).filter(|&from| from != layout);
        self.plan.takeover
            && from.is_some()
            && self.take(at, from, layout, MovedState::TakenOver, 0)
    }

    /// A client begins the probation of a server that was taken over, as enough were.
    pub(super) fn start_moved(&mut self, layout: usize, client: usize, node: usize) -> bool {
        let world = &self.worlds[layout];
        let reads = world.drivers[client].reads.iter().flatten();
        let Some(own) = world.drivers[client].in_sight(node).filter(|read| read.moved) else {
            return false;
        };
        let stored = &world.server(node, own.machine).view;
        let Some(from) = own.left.as_ref().map(|left| left.layout) else { return false };
        if !self.plan.takeover || !self.is_steady(layout) || stored.as_ref() != Some(&own.view) {
            return false;
        }
        // The servers are counted, because no client knows the names of another list. Those that an
        // operator moved wait for the operator.
        let enough = reads.filter_map(|read| read.left.as_ref());
        let enough = enough.filter(|left| left.layout == from && left.taken_over).count();
        let at = self.server_at(layout, node, own.machine);
        let may_start = enough >= self.enough(from);
        self.beginning |= u32::from(may_start) << layout;
        may_start && self.take(at, None, layout, MovedState::Probation, 0)
    }

    /// Moves a server into a layout, as `record::moving` does it; false where it belongs to a third
    /// one.
    fn take(
        &mut self,
        at: usize,
        from: Option<usize>,
        to: usize,
        state: MovedState,
        fence: u16,
    ) -> bool {
        let machines = self.plan.setup.machines;
        let (name, machine) = (at / machines, at % machines);
        let tag = self.tags[at];
        if tag.is_some_and(|tag| Some(tag.layout) != from && tag.layout != to) {
            return false;
        }
        let any = (0..self.worlds.len())
            .find_map(|layout| Some((layout, self.node_in(layout, name)?)))
            .expect("it is a server of some layout");
        let owner = tag.and_then(|tag| Some((tag.layout, self.node_in(tag.layout, name)?)));
        let (layout, node) = owner.unwrap_or(any);
        let mut server: ModelServer = self.worlds[layout].server(node, machine).clone();
        if let Some(tag) = tag.filter(|tag| tag.layout != to) {
            let voted = server.active && self.worlds[layout].is_enrolled(node, machine);
            let view = server.view.clone().filter(|_| voted);
            let taken_over = state == MovedState::TakenOver;
            server.left = Some(ModelDeparture { layout: tag.layout, node, taken_over, view });
        }
        let known = tag.map_or(0, |tag| tag.epoch);
        let epoch = if self.has(RulePart::MovedEpoch) { known + 1 } else { known.max(1) };
        server.fence = server.fence.max(fence);
        let Some(node) = self.node_in(to, name) else {
            self.tags[at] = Some(LayoutTag { layout: to, epoch });
            self.share_server(usize::MAX, at, &server);
            return true;
        };
        let is_same = tag.is_some_and(|tag| tag.layout == to);
        if is_same
            && !self.has(RulePart::Restarted)
            && server.moved
            && state == MovedState::Probation
        {
            server.moved = false;
        } else {
            let kept = server.view.take().filter(|_| is_same && !self.has(RulePart::MovedOwners));
            let blank = || vec![None; self.plan.layouts[to].len()].into();
            let mut view: Arc<View> = kept.unwrap_or_else(blank);
            let world = &mut self.worlds[to];
            world.server_mut(node, machine).run = server.run;
            Arc::make_mut(&mut view)[node] = Some(world.incarnation(node, machine, epoch));
            server.view = Some(view);
            server.moved = state != MovedState::Probation && self.has(RulePart::MovedMark);
            server.active = state == MovedState::Probation && !self.has(RulePart::MovedProbation);
        }
        server.elsewhere = false;
        *self.worlds[to].server_mut(node, machine) = server;
        self.share(to);
        true
    }
}
