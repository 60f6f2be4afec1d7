//! The steps of the world, and the violations that they may come to.

use super::{clocks::Whose, world::World};

/// One step of the world. `client`, `node`: indices; `machine`: index under the name of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
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
    Look {
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
    /// The client stores into a server in probation all owners that it knows.
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
pub(super) enum Violation {
    TwoHolders,
    TokenIssuedTwice,
    TokenNotGreater,
    DisjointGroups,
    WorkDoneTwice,
    TickClaimedTwice,
}

impl World {
    /// Does one step; false if it can't be done now, or changes nothing.
    pub(super) fn apply(&mut self, step: Step) -> bool {
        let done = match step {
            Step::Tick => {
                self.now += 1;
                true
            }
            Step::Gain { clock } => self.gain(clock),
            Step::Move { client, node, machine } => self.move_name(client, node, machine),
            Step::Restart { node, machine, keeps_data } => self.restart(node, machine, keeps_data),
            Step::Crash { client } => self.crash(client),
            Step::Cut { client, node } => self.cut(client, node),
            Step::Open { client, node } => self.open(client, node),
            Step::Look { client, node } => self.look(client, node),
            Step::Reenrol { client, node } => self.reenrol(client, node),
            Step::Store { client, into, of } => self.store(client, into, of),
            Step::Merge { client, node } => self.merge(client, node),
            Step::Begin { client, node } => self.begin(client, node),
            Step::Fence { client, node } => self.fence(client, node),
            Step::Activate { client } => self.activate(client),
            Step::Attempt { client } => self.attempt(client),
            Step::Vote { client, node } => self.vote(client, node),
            Step::Raise { client } => self.raise(client),
            Step::RaiseVote { client, node } => self.raise_vote(client, node),
            Step::Extend { client } => self.extend(client),
            Step::ExtendVote { client, node } => self.extend_vote(client, node),
            Step::Release { client, deletes } => self.release(client, deletes),
            Step::Work { client } => self.begin_work(client),
            Step::Ask { client, node } => self.ask(client, node),
            Step::BeginCopy { client, node } => self.begin_copy(client, node),
            Step::CopyFrom { client, node } => self.copy_from(client, node),
            Step::EndCopy { client } => self.end_copy(client),
        };
        if done && self.violation.is_none() && self.holders() > 1 {
            self.violation = Some(Violation::TwoHolders);
        }
        self.note_lost_record();
        let changes = matches!(
            step,
            Step::Tick
                | Step::Look { .. }
                | Step::Reenrol { .. }
                | Step::Store { .. }
                | Step::Merge { .. }
                | Step::Activate { .. }
        );
        if done && changes && !self.setup.locks && !self.setup.is_layout {
            self.note_groups();
        }
        done
    }
}
