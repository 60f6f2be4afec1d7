//! Both kinds of node give the same answers to the same operations in the same order.

use std::sync::Arc;
use std::time::Duration;

use tower_redlock::node::{
    Answer, ForgetJobOp, ForgetOp, HeldAnswer, Op, Record, RecordOp, RepairOp, StoredLease,
};

use crate::fixture::jobs::{SUPERSEDED, ask, claim, claims, of_tick, prepare, run};

use super::contender::{Response, TTL};
use super::{Contender, Subject, now_token};

/// Resources that overlap in several ways.
const RESOURCES: [&[&str]; 6] =
    [&["a"], &["b"], &["a", "b"], &["b", "c"], &["a", "b", "c"], &["d", "a"]];

#[tokio::test]
async fn random_lock_operations_agree() {
    for seed in 1..=4 {
        let (embedded, server) = (Subject::embedded(), Subject::server().await);
        let mut random = Random(seed);
        let mut pairs: Vec<_> = (0..8).map(|i| pair(&embedded, &server, i)).collect();
        let base = now_token();
        for step in 0..1000 {
            let chosen = random.below(pairs.len());
            if random.below(20) == 0 {
                pairs[chosen] = pair(&embedded, &server, random.below(100));
            }
            let (ours, theirs) = &pairs[chosen];
            let draw = (random.below(10), token(&mut random, base, step));
            let (op, other) = (operation(ours, draw), operation(theirs, draw));
            let shown = format!("{op:?}");
            let answers = (comparable(ours.ask(op).await), comparable(theirs.ask(other).await));
            assert_eq!(answers.0, answers.1, "seed {seed}, step {step}: {shown}");
        }
    }
}

#[tokio::test]
async fn bursts_of_acquires_agree() {
    let (embedded, server) = (Subject::embedded(), Subject::server().await);
    let mut random = Random(99);
    let base = now_token();

    for step in 0..200 {
        let mut sent = Vec::new();
        for _ in 0..=random.below(30) {
            let (ours, theirs) = pair(&embedded, &server, random.below(100));
            let token = token(&mut random, base, step * 5);
            // All operations of a burst are sent before the first is answered.
            let answers =
                (ours.ask(ours.acquire_op(TTL, token)), theirs.ask(theirs.acquire_op(TTL, token)));
            sent.push(((ours, theirs), answers));
        }
        let mut parties = Vec::new();
        for (pair, (ours, theirs)) in sent {
            assert_eq!(comparable(ours.await), comparable(theirs.await), "step {step}");
            parties.push(pair);
        }
        let release = |(ours, theirs): &(Contender, Contender)| {
            (ours.ask(ours.release_op()), theirs.ask(theirs.release_op()))
        };
        let released: Vec<_> = parties.iter().map(release).collect();
        for (ours, theirs) in released {
            assert_eq!(ours.await, theirs.await, "step {step}");
        }
    }
}

#[tokio::test]
async fn random_promises_and_claims_agree() {
    for seed in 1..=4 {
        let (embedded, server) = (Subject::embedded(), Subject::server().await);
        let mut random = Random(seed);
        let mut refused = 0;
        for step in 0..1000 {
            let op = about_jobs(&mut random, step);
            let shown = format!("{op:?}");
            let (ours, theirs) = (ask(embedded.node(), op.clone()), ask(server.node(), op));
            let (ours, theirs) = (ours.await, theirs.await);
            refused += usize::from(ours == SUPERSEDED);
            assert_eq!(ours, theirs, "seed {seed}, step {step}: {shown}");
        }
        assert!((100..600).contains(&refused), "{refused} are refused");
    }
}

/// Tokens near the promised ones; sometimes a previous run, an end or a second attempt.
fn about_jobs(random: &mut Random, step: u64) -> Op {
    const JOBS: [&str; 4] = ["a", "b", "a b", ""];
    let job = JOBS[random.below(JOBS.len())];
    let token = step + random.below(20) as u64;
    match random.below(10) {
        0..=3 => prepare(job, token),
        4..=7 => {
            let mut kept = of_tick(token, random.below(1_000_000) as u64);
            kept.run.attempt += u32::try_from(random.below(2)).expect("0 or 1");
            if random.below(2) == 0 {
                kept.run = kept.run.ended(kept.run.since + Duration::from_millis(1));
            }
            if random.below(2) == 0 {
                kept.before = Some(run(random.below(3) as u64).into());
            }
            claim(job, &kept)
        }
        8 if random.below(4) == 0 => {
            Op::ForgetJob(ForgetJobOp::new(job.into(), token, Duration::from_secs(30)))
        }
        _ => claims(
            (0..=random.below(5)).map(|_| JOBS[random.below(JOBS.len())]).collect::<Vec<_>>(),
        ),
    }
}

/// Locks with one name each, and their records.
#[tokio::test]
async fn random_record_operations_agree() {
    const NAMES: usize = 3;
    for seed in 11..=14 {
        let (embedded, server) = (Subject::embedded(), Subject::server().await);
        let mut random = Random(seed);
        let single = |number: usize| {
            let (owner, name) = (format!("owner {number}"), format!("name {}", number % NAMES));
            // The leases of both nodes have the same nonce, as nodes report it.
            let ours = embedded.contender_named(&owner, &*name);
            let theirs = ours.at(server.node());
            (ours, theirs)
        };
        let mut pairs: Vec<_> = (0..2 * NAMES).map(single).collect();
        for step in 0..1000 {
            let chosen = random.below(pairs.len());
            if random.below(20) == 0 {
                pairs[chosen] = single(random.below(100));
            }
            let (ours, theirs) = &pairs[chosen];
            let op = record_operation(ours, &mut random, step);
            let shown = format!("{op:?}");
            let other = op.clone();
            let answers = (comparable(ours.ask(op).await), comparable(theirs.ask(other).await));
            assert_eq!(answers.0, answers.1, "seed {seed}, step {step}: {shown}");
        }
    }
}

fn record_operation(contender: &Contender, random: &mut Random, step: u64) -> Op {
    let lease = Arc::clone(contender.lease());
    let name: Arc<str> = lease.resource().names().next().expect("one name").into();
    let retain = Duration::from_secs(3600);
    let mut record = |is_done| {
        let owner = Arc::clone(lease.owner());
        let since = Duration::from_millis(step);
        let stored = StoredLease::new(lease.nonce(), step, since, owner);
        let mut byte = |_| u8::try_from(random.below(256)).expect("a byte");
        let payload: Vec<u8> = (0..4).map(&mut byte).collect();
        Arc::new(Record::new(is_done, stored, payload.into()))
    };
    let (begun, done) = (record(false), record(true));
    match random.below(12) {
        0..=2 => contender.acquire_op(TTL, 0),
        3 | 4 => contender.release_op(),
        5 | 6 => Op::ReadRecord(name),
        7 => Op::Repair(RepairOp::new(name, done, retain)),
        8 | 9 => Op::Forget(ForgetOp::new(name, lease.nonce())),
        kind => {
            let record = if kind == 10 { begun } else { done };
            let (until, max_delay) = (super::contender::soon(), retain);
            Op::Record(RecordOp::new(Arc::clone(&lease), record, retain, until, max_delay))
        }
    }
}

fn pair(embedded: &Subject, server: &Subject, number: usize) -> (Contender, Contender) {
    let names = RESOURCES[number % RESOURCES.len()];
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let owner = format!("owner {number}");
    (embedded.contender_named(&owner, names.clone()), server.contender_named(&owner, names))
}

/// Tokens near the stored fences, in both directions; sometimes none, sometimes far ahead.
fn token(random: &mut Random, base: u64, step: u64) -> u64 {
    match random.below(12) {
        0 => 0,
        1 => base + 90_000_000,
        _ => base + step * 100 + random.below(1000) as u64,
    }
}

fn operation(contender: &Contender, (kind, token): (usize, u64)) -> Op {
    match kind {
        0..=3 => contender.acquire_op(TTL, token),
        4 | 5 => contender.raise_op(token),
        6 | 7 => contender.extend_op(TTL, super::contender::soon()),
        _ => contender.release_op(),
    }
}

/// TTLs differ by the time between two calls.
fn comparable(response: Response) -> Response {
    response.map(|answer| match answer {
        Answer::Held(HeldAnswer { owner, remaining, fence, .. }) => {
            let remaining = remaining.map(|_| Duration::ZERO);
            Answer::Held(HeldAnswer::new(owner, remaining, fence))
        }
        Answer::Recorded(Some((record, _))) => Answer::Recorded(Some((record, Duration::ZERO))),
        other => other,
    })
}

/// `SplitMix64` (S. Vigna): a seed makes a failure repeatable.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % limit as u64).expect("below a usize")
    }
}
