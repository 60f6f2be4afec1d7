//! Probations of sets of nodes.

use std::hash::{Hash, Hasher};

use super::*;
use crate::protocol::views::View;

const TTL: Duration = Duration::from_secs(10);

/// `max_ttl` plus 1 % and 2 ms.
const PROBATION: u64 = 10_102;

fn at(ms: u64) -> Timestamp {
    Timestamp::ZERO + Duration::from_millis(ms)
}

/// The status that a test gives a node. The text identifies the enrolment.
#[derive(Clone, Copy, PartialEq)]
enum TestStatus {
    Out,
    Elsewhere,
    Probation(&'static str),
    Moved,
    /// A node in its first probation.
    New,
    Active,
}

use TestStatus::{Active, Elsewhere, Moved, New, Out, Probation};

/// Nodes that learn each other's incarnations at once.
struct Fixture {
    enrolment: Enrolment,
    statuses: Vec<TestStatus>,
    own: Vec<Incarnation>,
    views: Vec<Arc<View>>,
}

impl Fixture {
    fn of(statuses: &[TestStatus]) -> Self {
        let nodes = statuses.len();
        let own = |node| Incarnation { epoch: 1, id: node as u128, nonce: 0 };
        let own: Vec<_> = (0..nodes).map(own).collect();
        let views = vec![vec![None; nodes].into(); nodes];
        let enrolment = Enrolment::new(nodes, TTL, 0.01);
        let mut set = Self { enrolment, statuses: vec![Out; nodes], own, views };
        for (node, status) in statuses.iter().enumerate() {
            set.set_status(node, *status);
        }
        set.observe_all(at(0));
        set
    }

    /// The node's status changes, and the other nodes are informed.
    fn see(&mut self, node: usize, status: TestStatus, now: Timestamp) {
        self.set_status(node, status);
        self.observe_all(now);
    }

    fn set_status(&mut self, node: usize, status: TestStatus) {
        if let (Probation(tag), before) = (status, self.statuses[node])
            && before != status
            && before != Out
        {
            self.own[node].epoch += 1;
            self.own[node].nonce = u64::from(tag.as_bytes()[0]);
        }
        self.statuses[node] = status;
    }

    fn observe_all(&mut self, now: Timestamp) {
        for node in 0..self.statuses.len() {
            if self.statuses[node] == Out {
                self.enrolment.see(node, NodeStatus::Out, now);
                continue;
            }
            self.views[node] = self.own.iter().map(|own| Some(*own)).collect();
        }
        for node in 0..self.statuses.len() {
            let status = self.status(node);
            self.enrolment.see(node, status, now);
        }
    }

    fn status(&self, node: usize) -> NodeStatus {
        let view = Arc::clone(&self.views[node]);
        let tag = format!("{view:?}").into();
        match self.statuses[node] {
            Out => NodeStatus::Out,
            Elsewhere => NodeStatus::OtherLayout,
            Probation(_) | Moved | New => {
                let (moved, is_new) = (self.statuses[node] == Moved, self.statuses[node] == New);
                NodeStatus::Probation { tag, view, max_ttl: Duration::ZERO, moved, is_new }
            }
            Active => NodeStatus::Active { view },
        }
    }

    /// The node's view, without what it knows of `other`.
    fn forget(&mut self, node: usize, other: usize, now: Timestamp) {
        Arc::make_mut(&mut self.views[node])[other] = None;
        let status = self.status(node);
        self.enrolment.see(node, status, now);
    }

    fn due(&mut self, now: Timestamp) -> Vec<ActivationStep> {
        self.enrolment.due(now)
    }
}

mod new_servers {
    use super::*;

    fn assumed(statuses: &[TestStatus]) -> Fixture {
        let mut set = Fixture::of(statuses);
        set.enrolment = set.enrolment.assume_new(true);
        set
    }

    #[test]
    fn start_at_once_and_together() {
        for nodes in 1..=5 {
            let mut set = assumed(&vec![New; nodes]);
            assert_eq!(set.enrolment.next_wake(), Some(at(0)));
            let steps = set.due(at(0));
            assert_eq!(steps.len(), nodes);
            assert!(steps.iter().all(|step| step.plan == ActivationPlan::New));
        }
    }

    #[test]
    fn failed_start_is_repeated_beside_voting_nodes() {
        let mut set = assumed(&[New, New, New]);
        assert_eq!(set.due(at(0)).len(), 3);
        set.enrolment.ended(2, ActivationOutcome::Failed, at(5));
        set.see(0, Active, at(10));
        set.see(1, Active, at(10));

        let steps = set.due(at(5) + RETRY);

        assert_eq!((steps.len(), steps[0].node), (1, 2));
        assert_eq!(steps[0].plan, ActivationPlan::New, "it never voted, so it forgot nothing");
    }

    #[test]
    fn set_with_a_past_waits() {
        for other in [Probation("a"), Moved, Active, Out, Elsewhere] {
            let mut set = assumed(&[New, New, other]);
            assert_eq!(set.due(at(PROBATION - 1)), []);
        }
        let mut set = Fixture::of(&[New; 3]);
        assert_eq!(set.due(at(PROBATION - 1)), [], "nothing is assumed");
        assert_eq!(set.due(at(PROBATION)).len(), 3);
    }

    #[test]
    fn nodes_that_do_not_name_each_other_wait() {
        let mut set = assumed(&[New; 3]);
        set.forget(1, 2, at(0));
        assert_eq!(set.due(at(1)), []);
        set.observe_all(at(2));
        assert_eq!(set.due(at(2)).len(), 3);
    }

    #[test]
    fn server_that_forgot_since_waits() {
        let mut set = assumed(&[New; 3]);
        assert_eq!(set.due(at(0)).len(), 3);
        for node in 0..3 {
            set.enrolment.ended(node, ActivationOutcome::Done, at(1));
            set.see(node, Active, at(1));
        }
        // It lost all its data, so it has the record of a new node.
        set.own[1].epoch += 1;

        set.see(1, New, at(2));

        assert_eq!(set.due(at(PROBATION)), []);
        assert!(matches!(set.due(at(PROBATION + 2))[0].plan, ActivationPlan::Learn { .. }));
    }
}

mod restart {
    use super::*;

    #[test]
    fn activates_after_max_ttl_with_quorum() {
        let mut set = Fixture::of(&[Probation("a"), Active, Active]);
        assert_eq!(set.enrolment.next_wake(), Some(at(PROBATION)));
        assert_eq!(set.due(at(PROBATION - 1)), []);
        let steps = set.due(at(PROBATION));
        assert_eq!(steps[0].plan, ActivationPlan::Learn { from: vec![1, 2], needed: 2 });
        assert_eq!(set.due(at(PROBATION)), [], "it is under way");
    }

    #[test]
    fn missing_others_are_waited_for() {
        let mut set = Fixture::of(&[Probation("a"), Active, Active]);
        set.see(2, Out, at(PROBATION - 1));
        assert_eq!(set.enrolment.next_wake(), None);
        set.see(2, Active, at(60_000));
        assert!(matches!(set.due(at(60_000))[0].plan, ActivationPlan::Learn { .. }));
    }

    #[test]
    fn minority_that_forgot_waits_for_others() {
        for others in [[Active, Out], [Out, Out]] {
            let mut set = Fixture::of(&[Probation("a"), others[0], others[1]]);
            assert_eq!(set.due(at(600_000)), []);
        }
        let mut set = Fixture::of(&[Probation("a"), Active, Out]);
        set.see(2, Probation("c"), at(60_000));
        assert_eq!(set.due(at(60_000 + PROBATION - 1)), []);
        let steps = set.due(at(60_000 + PROBATION));

        assert_eq!(steps[0].plan, ActivationPlan::Bootstrap { from: vec![1, 2] });
        assert_eq!(steps[1].plan, ActivationPlan::Bootstrap { from: vec![0, 1] });
    }

    #[test]
    fn new_enrolment_waits_anew() {
        let mut set = Fixture::of(&[Probation("a"), Active, Active]);
        set.see(0, Probation("b"), at(9_000));
        assert_eq!(set.enrolment.next_wake(), Some(at(9_000 + PROBATION)));
    }

    #[test]
    fn single_node_waits_anew() {
        let mut set = Fixture::of(&[Probation("a")]);
        set.see(0, Probation("b"), at(9_000));
        assert_eq!(set.enrolment.next_wake(), Some(at(9_000 + PROBATION)));
    }

    #[test]
    fn learns_from_three_of_five() {
        let mut set = Fixture::of(&[Probation("a"), Active, Active, Out, Out]);
        assert_eq!(set.due(at(60_000)), []);
        set.see(3, Active, at(60_000));
        let steps = set.due(at(60_000 + PROBATION));
        assert_eq!(steps[0].plan, ActivationPlan::Learn { from: vec![1, 2, 3], needed: 3 });
    }

    #[test]
    fn probation_goes_on_out_of_sight() {
        let mut set = Fixture::of(&[Probation("a"), Active, Active]);
        set.see(0, Out, at(1_000));
        assert_eq!(set.due(at(60_000)), []);
        set.see(0, Probation("a"), at(60_000));
        assert_eq!(set.due(at(60_000)).len(), 1);
    }

    #[test]
    fn clock_put_forward_keeps_the_wait() {
        let mut set = Fixture::of(&[Probation("a"), Active, Active]);
        set.enrolment.put_forward(Duration::from_secs(5));
        assert_eq!(set.due(at(PROBATION + 4_999)), []);
        assert_eq!(set.due(at(PROBATION + 5_000))[0].waited, Duration::from_millis(PROBATION));
    }

    #[test]
    fn waits_longer_ttl_and_retries_failures() {
        let mut set = Fixture::of(&[Probation("a"), Active, Active]);

        assert_eq!(set.due(at(PROBATION)).len(), 1);
        set.enrolment.ended(0, ActivationOutcome::Longer(Duration::from_secs(20)), at(PROBATION));
        assert_eq!(set.enrolment.next_wake(), Some(at(20_202)));
        assert_eq!(set.due(at(20_202)).len(), 1);
        set.enrolment.ended(0, ActivationOutcome::Failed, at(20_202));
        assert_eq!(set.enrolment.next_wake(), Some(at(20_402)));
        assert_eq!(set.due(at(20_402)).len(), 1);
        set.enrolment.ended(0, ActivationOutcome::Later(Duration::from_millis(700)), at(20_402));

        assert_eq!(set.enrolment.next_wake(), Some(at(21_102)));
    }
}

mod plan {
    use super::*;

    #[test]
    fn nodes_that_lack_owners_are_checked() {
        let mut set = Fixture::of(&[Probation("a"), Active, Active]);

        assert_eq!(set.enrolment.plan(at(1)).checks, [0_usize; 0]);
        set.forget(2, 0, at(1_000));
        assert_eq!(set.enrolment.plan(at(1_000)).checks, [2]);

        // The same record again, because the change failed.
        set.forget(2, 0, at(1_001));
        let plan = set.enrolment.plan(at(1_001));
        assert_eq!((plan.checks, plan.wake), (vec![], Some(at(1_200))));
        assert_eq!(set.enrolment.plan(at(1_200)).checks, [2]);

        // The node learnt one owner and lacks another, so it is checked at once.
        set.forget(2, 1, at(1_201));
        assert_eq!(set.enrolment.plan(at(1_201)).checks, [2]);
        set.observe_all(at(1_202));

        assert_eq!(set.enrolment.plan(at(60_000)).checks, [0_usize; 0]);
    }

    #[test]
    fn copies_begin_when_due() {
        let mut set = Fixture::of(&[Active, Active, Active]);

        set.enrolment.see_copying(0, true, at(1));
        assert_eq!(set.enrolment.plan(at(1)).copies, [0]);
        set.enrolment.see_copying(0, true, at(2));
        assert_eq!(set.enrolment.plan(at(2)).copies, [0_usize; 0], "under way");
        set.enrolment.copied(0, Some(at(1_000)));
        let plan = set.enrolment.plan(at(999));
        assert_eq!((plan.copies, plan.wake), (vec![], Some(at(1_000))));
        assert_eq!(set.enrolment.plan(at(1_000)).copies, [0]);
        set.enrolment.copied(0, Some(at(2_000)));
        set.enrolment.see_copying(0, false, at(1_500));
        assert_eq!(set.enrolment.plan(at(2_000)).copies, [0_usize; 0], "another client was faster");
        set.enrolment.see_copying(0, true, at(2_500));
        assert_eq!(set.enrolment.plan(at(2_500)).copies, [0], "wanted again");
        set.enrolment.copied(0, None);

        assert_eq!(set.enrolment.next_wake(), None);
    }
}

mod bootstrap {
    use super::*;

    #[test]
    fn new_set_starts_by_itself() {
        let mut set = Fixture::of(&[Probation("a"), Probation("b"), Out]);
        let steps = set.due(at(PROBATION));
        assert_eq!(steps.len(), 2);
        assert_eq!(steps[0].plan, ActivationPlan::Bootstrap { from: vec![1] });
        let mut one = Fixture::of(&[Probation("a")]);
        assert_eq!(one.due(at(PROBATION)).len(), 1, "a single node always does");
    }

    #[test]
    fn nodes_start_together() {
        let mut set = Fixture::of(&[Probation("a"), Out, Out]);

        set.see(1, Probation("b"), at(60_000));
        assert_eq!(set.due(at(60_000 + PROBATION - 1)), []);
        assert_eq!(set.enrolment.next_wake(), Some(at(60_000 + PROBATION)));
        assert_eq!(set.due(at(60_000 + PROBATION)).len(), 2);

        // One node votes before the failed activation of the other one is retried.
        set.enrolment.ended(0, ActivationOutcome::Done, at(60_000 + PROBATION));
        set.see(0, Active, at(60_000 + PROBATION));
        set.enrolment.ended(1, ActivationOutcome::Failed, at(60_000 + PROBATION));
        let steps = set.due(at(60_200 + PROBATION));

        assert_eq!(steps[0].plan, ActivationPlan::Bootstrap { from: vec![0] });
    }

    #[test]
    fn rest_of_a_start_goes_on() {
        let mut set = Fixture::of(&[Probation("a"), Probation("b"), Out]);
        // Another client activated one of them, and has ended.
        set.see(0, Active, at(PROBATION - 1));
        assert_eq!(set.due(at(PROBATION))[0].plan, ActivationPlan::Bootstrap { from: vec![0] });
        let mut later = Fixture::of(&[Probation("a"), Out, Out]);
        later.see(0, Active, at(60_000));
        later.see(1, Probation("b"), at(70_000));
        assert_eq!(later.due(at(600_000)), [], "they did not forget at once");
    }

    #[test]
    fn start_needs_others_in_sight() {
        let mut set = Fixture::of(&[Probation("a"), Probation("b"), Out]);
        set.see(1, Out, at(1_000));
        assert_eq!(set.due(at(600_000)), []);
    }

    #[test]
    fn begun_start_goes_on_alone() {
        let mut set = Fixture::of(&[Probation("a"), Probation("b"), Out]);
        assert_eq!(set.due(at(PROBATION)).len(), 2);
        set.enrolment.ended(0, ActivationOutcome::Failed, at(PROBATION));
        set.see(1, Out, at(PROBATION));
        let steps = set.due(at(PROBATION + 200));
        assert_eq!(steps[0].plan, ActivationPlan::Bootstrap { from: Vec::new() });
    }

    #[test]
    fn longer_ttl_delays_the_others() {
        let mut set = Fixture::of(&[Probation("a"), Probation("b"), Out]);
        let NodeStatus::Probation { tag, view, moved, .. } = set.status(1) else { unreachable!() };
        let max_ttl = Duration::from_secs(20);
        set.enrolment.see(
            1,
            NodeStatus::Probation { tag, view, max_ttl, moved, is_new: false },
            at(0),
        );
        assert_eq!(set.due(at(20_201)), []);
        assert_eq!(set.due(at(20_202)).len(), 2);
    }

    #[test]
    fn four_of_five_await_nobody() {
        let mut set = Fixture::of(&[Active; 5]);
        set.see(4, Out, at(60_000));
        for (node, tag) in ["a", "b", "c", "d"].into_iter().enumerate() {
            set.see(node, Probation(tag), at(50_000));
        }
        assert_eq!(set.due(at(50_000 + PROBATION)).len(), 4);
    }

    #[test]
    fn missing_nodes_get_time_to_return() {
        let mut set = Fixture::of(&[Active, Active, Active]);
        set.see(2, Out, at(60_000));
        set.see(0, Probation("a"), at(50_000));
        set.see(1, Probation("b"), at(50_000));
        assert_eq!(set.due(at(60_000 + PROBATION - 1)), []);
        assert_eq!(set.due(at(60_000 + PROBATION)).len(), 2);
    }

    #[test]
    fn waits_until_quorum_names_each_other() {
        let mut set = Fixture::of(&[Probation("a"), Probation("b"), Out]);
        set.forget(1, 0, at(1_000));
        assert_eq!(set.due(at(PROBATION)), []);
        set.observe_all(at(20_000));
        assert_eq!(set.due(at(20_000 + PROBATION - 1)), []);
        assert_eq!(set.due(at(20_000 + PROBATION)).len(), 2);
    }
}

mod other_sets {
    use super::*;

    #[test]
    fn no_start_beside_nodes_of_another() {
        let mut set = Fixture::of(&[&[Probation("x"); 4][..], &[Elsewhere; 3][..]].concat());
        assert_eq!(set.due(at(60_000)), []);
    }

    #[test]
    fn node_out_of_sight_prevents_start() {
        let mut set = Fixture::of(&[Elsewhere, Probation("a"), Probation("b")]);
        set.see(0, Out, at(PROBATION));
        assert!(set.enrolment.is_elsewhere(0));
        assert_eq!(set.due(at(60_000)), []);
        assert_eq!(set.enrolment.next_wake(), None);
        set.see(0, Probation("adopted"), at(60_000));
        assert!(!set.enrolment.is_elsewhere(0));
        assert_eq!(set.due(at(60_000 + PROBATION)).len(), 3);
    }

    #[test]
    fn half_moved_node_starts_with_nobody() {
        let mut set = Fixture::of(&[Moved, Probation("a"), Probation("b")]);
        assert_eq!(set.due(at(60_000)), []);
        set.see(0, Out, at(60_000));
        assert_eq!(set.due(at(60_000)), []);
    }

    #[test]
    fn start_waits_for_old_sets_locks() {
        let mut set = Fixture::of(&[Elsewhere, Probation("b"), Probation("c")]);
        set.see(0, Probation("taken"), at(60_000));
        assert_eq!(set.due(at(60_000 + PROBATION - 1)), []);
        assert_eq!(set.due(at(60_000 + PROBATION)).len(), 3);
    }

    #[test]
    fn moved_node_only_learns() {
        let mut set = Fixture::of(&[Moved, Probation("a"), Out]);
        assert_eq!(set.due(at(60_000)), []);
        set.see(1, Active, at(60_000));
        set.see(2, Active, at(60_000));
        let steps = set.due(at(60_000 + PROBATION));
        assert_eq!(steps[0].plan, ActivationPlan::Learn { from: vec![1, 2], needed: 2 });
    }
}

/// Equality of the states of one set: its other fields do not change.
impl PartialEq for Enrolment {
    fn eq(&self, other: &Self) -> bool {
        self.nodes == other.nodes && self.old_set_seen == other.old_set_seen
    }
}

impl Eq for Enrolment {}

impl Hash for Enrolment {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.nodes, self.old_set_seen).hash(state);
    }
}

#[path = "enrol_names_tests.rs"]
mod names;
