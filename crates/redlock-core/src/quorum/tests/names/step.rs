//! The steps of the world, and the violations that they may come to.

use super::{clocks::Whose, world::NamesWorld};

/// One step of the world. `client`, `node`: indices; `machine`: index under the name of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamesStep {
    Tick,
    /// A clock gains a tick on the slowest one.
    Gain {
        clock: Whose,
    },
    /// The look-ups of a client lead to another machine from now on; `None`: of all clients.
    Move {
        client: Option<usize>,
        node: usize,
        machine: usize,
    },
    /// A replica of the server where the look-ups lead takes its place, with or without the latest
    /// writes.
    Promote {
        client: Option<usize>,
        node: usize,
        machine: usize,
        lags: bool,
    },
    Restart {
        node: usize,
        machine: usize,
        keeps_data: bool,
    },
    Crash {
        client: usize,
    },
    /// The client can't reach the node any more.
    Cut {
        client: usize,
        node: usize,
    },
    /// The client opens a new connection by a fresh look-up.
    Open {
        client: usize,
        node: usize,
    },
    /// The client reads the server, and enrols it if it is blank or was restarted.
    Observe {
        client: usize,
        node: usize,
    },
    /// The client enrols a displaced server anew.
    Reenrol {
        client: usize,
        node: usize,
    },
    /// The client stores into `into` the incarnation that it read under `of`.
    Store {
        client: usize,
        into: usize,
        of: usize,
    },
    /// The client stores into a server all owners that it knows.
    Merge {
        client: usize,
        node: usize,
    },
    /// The client begins to activate a server.
    Begin {
        client: usize,
        node: usize,
    },
    /// The client reads a fence for the activation under way.
    Fence {
        client: usize,
        node: usize,
    },
    Activate {
        client: usize,
    },
    /// The client asks for the lock.
    Attempt {
        client: usize,
    },
    Vote {
        client: usize,
        node: usize,
    },
    Raise {
        client: usize,
    },
    RaiseVote {
        client: usize,
        node: usize,
    },
    Extend {
        client: usize,
    },
    ExtendVote {
        client: usize,
        node: usize,
    },
    /// The client gives the lock or the attempt up, with or without deleting the keys.
    Release {
        client: usize,
        deletes: bool,
    },
    /// The client begins the work under its lock.
    Work {
        client: usize,
    },
    /// A server answers a request of the client's work.
    Ask {
        client: usize,
        node: usize,
    },
    /// The client begins to copy records to a server.
    BeginCopy {
        client: usize,
        node: usize,
    },
    /// The client copies the records of one server.
    CopyFrom {
        client: usize,
        node: usize,
    },
    /// The client says on the server that it has all records.
    EndCopy {
        client: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Violation {
    TwoHolders,
    TokenIssuedTwice,
    TokenNotGreater,
    DisjointGroups,
    WorkDoneTwice,
    TickClaimedTwice,
}

impl NamesWorld {
    /// Does one step; false if it can't be done now, or changes nothing.
    pub(crate) fn apply(&mut self, step: NamesStep) -> bool {
        let done = match step {
            NamesStep::Tick => {
                self.now += 1;
                true
            }
            NamesStep::Gain { clock } => self.gain(clock),
            NamesStep::Move { client, node, machine } => self.move_name(client, node, machine),
            NamesStep::Promote { client, node, machine, lags } => {
                self.promote(client, node, machine, lags)
            }
            NamesStep::Restart { node, machine, keeps_data } => {
                self.restart(node, machine, keeps_data)
            }
            NamesStep::Crash { client } => self.crash(client),
            NamesStep::Cut { client, node } => self.cut(client, node),
            NamesStep::Open { client, node } => self.open(client, node),
            NamesStep::Observe { client, node } => self.look(client, node),
            NamesStep::Reenrol { client, node } => self.reenrol(client, node),
            NamesStep::Store { client, into, of } => self.store(client, into, of),
            NamesStep::Merge { client, node } => self.merge(client, node),
            NamesStep::Begin { client, node } => self.begin(client, node),
            NamesStep::Fence { client, node } => self.fence(client, node),
            NamesStep::Activate { client } => self.activate(client),
            NamesStep::Attempt { client } => self.attempt(client),
            NamesStep::Vote { client, node } => self.vote(client, node),
            NamesStep::Raise { client } => self.raise(client),
            NamesStep::RaiseVote { client, node } => self.raise_vote(client, node),
            NamesStep::Extend { client } => self.extend(client),
            NamesStep::ExtendVote { client, node } => self.extend_vote(client, node),
            NamesStep::Release { client, deletes } => self.release(client, deletes),
            NamesStep::Work { client } => self.begin_work(client),
            NamesStep::Ask { client, node } => self.ask(client, node),
            NamesStep::BeginCopy { client, node } => self.begin_copy(client, node),
            NamesStep::CopyFrom { client, node } => self.copy_from(client, node),
            NamesStep::EndCopy { client } => self.end_copy(client),
        };
        if done && self.violation.is_none() && self.holders() > 1 {
            self.violation = Some(Violation::TwoHolders);
        }
        self.note_lost_record();
        let changes = matches!(
            step,
            NamesStep::Tick
                | NamesStep::Observe { .. }
                | NamesStep::Reenrol { .. }
                | NamesStep::Store { .. }
                | NamesStep::Merge { .. }
                | NamesStep::Activate { .. }
        );
        if done && changes && !self.setup.locks && !self.setup.is_layout {
            self.note_groups();
        }
        done
    }
}
