//! Nodes with equal views, and servers that were displaced.

use super::*;

#[test]
fn wait_begins_with_enough_voters() {
    let mut set = Fixture::of(&[Probation("a"), Active, Active]);
    set.forget(1, 0, at(1_000));
    assert_eq!(set.enrolment.next_activation(), None, "one voter does not suffice");
    set.observe_all(at(5_000));
    assert_eq!(set.enrolment.next_activation(), Some(at(5_000 + PROBATION)));
}

#[test]
fn voters_have_to_know_each_other() {
    let mut set = Fixture::of(&[Probation("a"), Active, Active]);
    set.forget(1, 2, at(1_000));
    assert_eq!(set.enrolment.next_activation(), None);
}

#[test]
fn newcomer_must_know_the_voters_owners() {
    let mut set = Fixture::of(&[Probation("a"), Active, Active, Active, Out]);
    set.forget(0, 4, at(1_000));
    assert_eq!(set.enrolment.next_activation(), None);
    assert!(set.enrolment.lacks_owners(0));
    assert_eq!(set.enrolment.owner(4), Some(set.own[4]), "what it is told instead");
}

#[test]
fn everyone_is_told_of_a_newcomer() {
    let mut set = Fixture::of(&[Probation("a"), Active, Active]);

    assert!((0..3).all(|node| !set.enrolment.lacks_owners(node)));
    set.forget(2, 0, at(1_000));
    let lack = [0, 1, 2].map(|node| set.enrolment.lacks_owners(node));

    assert_eq!(lack, [false, false, true]);
    assert_eq!(
        [0, 1, 2].map(|node| set.enrolment.owner(node)),
        [0, 1, 2].map(|node| Some(set.own[node]))
    );
}

#[test]
fn newcomer_takes_the_next_epoch() {
    let set = Fixture::of(&[Active, Active, Active]);
    assert_eq!(set.enrolment.least_epoch(0), 2);
    let unknown = Enrolment::new(3, TTL, 0.01);
    assert_eq!(unknown.least_epoch(0), 1);
}

/// Returns a set in which another client's server was enrolled under the name of node 0.
fn displaced(now: Timestamp) -> Fixture {
    let mut set = Fixture::of(&[Active, Active, Active]);
    displace(&mut set, 2, now);
    set
}

fn displace(set: &mut Fixture, epoch: u32, now: Timestamp) {
    for node in [1, 2] {
        Arc::make_mut(&mut set.views[node])[0] = Some(Incarnation { epoch, id: 77, nonce: 7 });
        let status = set.status(node);
        set.enrolment.see(node, status, now);
    }
}

#[test]
fn displaced_node_is_reclaimed_after_probation() {
    let set = displaced(at(1_000));
    assert_eq!(set.enrolment.displaced_since(0), Some(at(1_000)));
    assert_eq!(set.enrolment.displaced_since(1), None);
    assert_eq!(set.enrolment.reclaims(0, at(1_000 + PROBATION - 1)), None);
    assert_eq!(set.enrolment.reclaims(0, at(1_000 + PROBATION)), Some(set.own[0]));
    assert_eq!(set.enrolment.least_epoch(0), 3);
}

/// Two clients reach different servers under one name, and each displaces the other's server.
#[test]
fn flapping_name_waits_longer() {
    let mut set = displaced(at(1_000));
    let mut now = 1_000;
    let mut epoch = 2;

    for doublings in [0, 1, 2, 3, 4, 5, 6, 6] {
        let pause = PROBATION << doublings;
        assert_eq!(set.enrolment.reclaims(0, at(now + pause - 1)), None);
        assert_eq!(set.enrolment.reclaims(0, at(now + pause)), Some(set.own[0]));
        (epoch, now) = (epoch + 1, now + pause);
        set.own[0].epoch = epoch;
        set.observe_all(at(now));
        assert_eq!(set.enrolment.displaced_since(0), None, "it is the owner again");
        // The other client does the same.
        (epoch, now) = (epoch + 1, now + PROBATION);
        displace(&mut set, epoch, at(now));
    }
    // The wait is short again after the name has settled.
    set.own[0].epoch = epoch + 1;
    set.observe_all(at(now));
    now += 16 * PROBATION;
    displace(&mut set, epoch + 2, at(now));

    assert_eq!(set.enrolment.reclaimed_at(0), Some(at(now + PROBATION)));
}

#[test]
fn displaced_node_tells_nobody() {
    let set = displaced(at(1_000));
    assert!((0..3).all(|node| !set.enrolment.lacks_owners(node)));
}

/// The greatest owner of a name is kept, whichever node reports it.
#[test]
fn displaced_nodes_knowledge_is_told() {
    let mut set = displaced(at(1_000));
    let later = Some(Incarnation { epoch: 5, id: 55, nonce: 5 });
    Arc::make_mut(&mut set.views[0])[2] = later;
    let status = set.status(0);
    set.enrolment.see(0, status, at(2_000));
    assert!(set.enrolment.lacks_owners(1));
    assert_eq!(set.enrolment.owner(2), later);
    assert_eq!(set.enrolment.displaced_since(2), Some(at(2_000)));
}

#[test]
fn remaining_counts_down_to_activation() {
    let set = Fixture::of(&[Probation("a"), Active, Active]);
    assert!(set.enrolment.is_quorate());
    assert_eq!(set.enrolment.remaining(0, at(102)), Duration::from_secs(10));
    assert_eq!(set.enrolment.remaining(0, at(PROBATION + 1)), Duration::ZERO);
    assert_eq!(set.enrolment.remaining(1, at(0)), Duration::ZERO, "it votes");
}

#[test]
fn displaced_node_is_no_witness() {
    let mut set = displaced(at(1_000));

    set.own[2].epoch = 2;
    set.statuses[2] = Probation("c");
    Arc::make_mut(&mut set.views[2])[2] = Some(set.own[2]);
    for node in [1, 2] {
        Arc::make_mut(&mut set.views[node])[2] = (node != 2).then_some(set.own[2]);
        let status = set.status(node);
        set.enrolment.see(node, status, at(2_000));
    }
    let steps = set.due(at(60_000));

    assert_eq!(steps, []);
}
