//! A lease under test, and short names for its events and actions.

use std::time::Duration;

use crate::{
    protocol::{
        Answer, ExtendedAnswer, GrantedAnswer, HeldAnswer, OpId, RaisedAnswer, ReleasedAnswer,
    },
    quorum::{Action, Event, Lease, LeaseCommand, LeaseParams, tests::fixture::lease_params},
    timestamp::Timestamp,
    vote::{Reason, VoteOutcome},
};

pub(super) use crate::quorum::tests::fixture::{PROPOSAL, TIMEOUT, VALIDITY};

pub(super) const SLACK: Duration = Duration::from_millis(100);

/// A lease that started at 0 ms, and the present moment.
pub(super) struct Fixture {
    pub(super) lease: Lease,
    pub(super) now: Timestamp,
    out: Vec<Action>,
}

/// Returns the moment `ms` after the start.
pub(super) fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos(1_000_000_000_000) + Duration::from_millis(ms)
}

/// Returns the usual params: 9 s valid, 50 ms for each node, 5 min at most.
pub(super) fn params(nodes: usize) -> LeaseParams {
    LeaseParams { slack: SLACK, max_hold: Duration::from_secs(300), ..lease_params(nodes) }
}

impl Fixture {
    pub(super) fn start(nodes: usize) -> Self {
        Self::with(params(nodes))
    }

    pub(super) fn with(params: LeaseParams) -> Self {
        let mut out = Vec::new();
        let lease = Lease::start(params, at(0), &mut out);
        out.clear();
        Self { lease, now: at(0), out }
    }

    /// A lease that holds the lock: the first two of three nodes granted.
    pub(super) fn held() -> Self {
        Self::held_with(params(3))
    }

    pub(super) fn held_with(params: LeaseParams) -> Self {
        let mut fixture = Self::with(params);
        for node in 0..=params.nodes / 2 {
            fixture.answer(node, OpId::Acquire, granted());
        }
        assert!(fixture.lease.end() > at(0), "held");
        fixture
    }

    pub(super) fn at(&mut self, ms: u64) -> &mut Self {
        assert!(at(ms) >= self.now, "time goes forward");
        self.now = at(ms);
        self
    }

    pub(super) fn handle(&mut self, event: Event) -> Vec<Action> {
        self.lease.handle(event, self.now, &mut self.out);
        std::mem::take(&mut self.out)
    }

    pub(super) fn answer(
        &mut self,
        node: usize,
        op: OpId,
        result: Result<Answer, Reason>,
    ) -> Vec<Action> {
        self.handle(Event::Answer { node, op, result, view: None })
    }

    pub(super) fn vote(&mut self, node: usize, result: Result<Answer, Reason>) -> Vec<Action> {
        self.answer(node, OpId::Acquire, result)
    }

    pub(super) fn raised(&mut self, node: usize, round: u8, accepted: bool) -> Vec<Action> {
        self.answer(
            node,
            OpId::Raise(round),
            Ok(Answer::Raised(RaisedAnswer { accepted, fence: 0 })),
        )
    }

    /// An answer to the extension that was started at `ms`.
    pub(super) fn extension(
        &mut self,
        node: usize,
        ms: u64,
        result: Result<Answer, Reason>,
    ) -> Vec<Action> {
        self.answer(node, OpId::Extend(at(ms)), result)
    }

    pub(super) fn acknowledge(&mut self, node: usize, existed: bool) -> Vec<Action> {
        self.answer(
            node,
            OpId::Release,
            Ok(Answer::Released(ReleasedAnswer { existed, awaited: false })),
        )
    }

    pub(super) fn wake(&mut self) -> Vec<Action> {
        self.handle(Event::Wake)
    }

    pub(super) fn extend(&mut self) -> Vec<Action> {
        self.handle(Event::Extend)
    }

    pub(super) fn release(&mut self, awaited: bool) -> Vec<Action> {
        self.handle(Event::Release { awaited })
    }
}

pub(super) fn granted() -> Result<Answer, Reason> {
    Ok(Answer::Granted(GrantedAnswer { accepted: true, fence: 0 }))
}

/// Granted, but the proposal was not above this fence.
pub(super) fn granted_below(fence: u64) -> Result<Answer, Reason> {
    Ok(Answer::Granted(GrantedAnswer { accepted: false, fence }))
}

pub(super) fn held(owner: &str, remaining: Option<u64>) -> Result<Answer, Reason> {
    let remaining = remaining.map(Duration::from_millis);
    Ok(Answer::Held(HeldAnswer::new(Some(owner.into()), remaining, 0)))
}

pub(super) fn extended() -> Result<Answer, Reason> {
    Ok(Answer::Extended(ExtendedAnswer::UNAWAITED))
}

pub(super) fn renewed(ms: u64) -> Action {
    Action::Renewed { until: at(ms) }
}

pub(super) fn not_counted(reason: Reason) -> VoteOutcome {
    VoteOutcome::NotCounted(reason)
}

pub(super) fn send(node: usize, command: LeaseCommand) -> Action {
    Action::Send { node, command }
}

pub(super) fn releases(nodes: usize) -> Vec<Action> {
    releases_of(0..nodes)
}

pub(super) fn releases_of(nodes: impl IntoIterator<Item = usize>) -> Vec<Action> {
    nodes.into_iter().map(|node| send(node, LeaseCommand::Release)).collect()
}

/// A round of renewal, as it is sent.
pub(super) fn round(nodes: usize, started: u64, until: u64) -> Vec<Action> {
    let command = LeaseCommand::Extend { started: at(started), until: at(until) };
    let sends = (0..nodes).map(|node| send(node, command));
    std::iter::once(Action::Renewing).chain(sends).collect()
}
