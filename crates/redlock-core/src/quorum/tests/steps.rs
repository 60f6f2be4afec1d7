//! Steps of a server's clock that are too small to be seen, or come after a holder's last reading:
//! the server is the one that the quorums of two clients share. The holder reads no clock any more; the
//! next client has only its own readings.

use std::time::Duration;

use super::{fixture::lease_params, search::Random};
use crate::{
    membership::offsets::{Interval, Offsets, Reading},
    protocol::{Answer, ExtendedAnswer, GrantedAnswer, OpId, formulas},
    quorum::{Event, Lease, LeaseParams},
    timestamp::Timestamp,
};

const FACTOR: f64 = 0.01;
/// Maximum difference of the clocks' rates, in millionths: a tenth of the factor.
const RATE: u64 = 1_000;
/// Maximum time of a message, in µs.
const TRIP: u64 = 4_000;
/// When the lease is requested, in µs.
const START: u64 = 100_000_000;
const CASES: u64 = 5_000;

fn at(micros: u64) -> Timestamp {
    Timestamp::ZERO + Duration::from_micros(micros)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).expect("a short time")
}

/// A server's clock, in µs. It gains or loses steadily, and steps once.
#[derive(Clone, Copy, Debug)]
struct ServerClock {
    /// Millionths by which it is faster, plus [`RATE`].
    rate: u64,
    step: u64,
    steps_at: u64,
}

impl ServerClock {
    fn shows(&self, at: u64) -> u64 {
        let step = if at >= self.steps_at { self.step } else { 0 };
        at + at * self.rate / 1_000_000 + 1_000_000_000 - at * RATE / 1_000_000 + step
    }
}

/// One world.
#[derive(Clone, Copy, Debug)]
struct StepCase {
    ttl: Duration,
    clock: ServerClock,
    /// The time between the next client's readings.
    read_every: u64,
    trips: [u64; 4],
    is_extended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Seen,
    /// The former holder's validity is over.
    OneHolder,
    TwoHolders,
}

impl StepCase {
    fn draw(random: &mut Random) -> Self {
        let one_of = |random: &mut Random, limits: [u64; 3]| {
            let limit = limits[random.below(3)];
            random.next() % limit
        };
        let ttl = 50 + one_of(random, [350, 1_950, 5_950]);
        let step = 1_000 + one_of(random, [30_000, 100_000, 1_000_000]);
        let mut below = |limit: u64| random.next() % limit;
        let steps_at = START + below(ttl * 1_000);
        Self {
            ttl: Duration::from_millis(ttl),
            clock: ServerClock { rate: below(2 * RATE), step, steps_at },
            read_every: 100_000 + below(micros(formulas::READING_AGE) - 100_000),
            trips: [0; 4].map(|_| below(TRIP)),
            is_extended: below(2) == 0,
        }
    }

    /// Returns the end of the former holder's validity and the expiry of its key, in ms of the server's
    /// clock.
    fn hold(&self, slack: Duration) -> (Timestamp, u64) {
        let params = LeaseParams {
            validity: formulas::validity(self.ttl, slack),
            slack,
            node_timeout: formulas::node_timeout(Duration::from_millis(50), self.ttl),
            auto_extend: false,
            ..lease_params(1)
        };
        let mut actions = Vec::new();
        let mut lease = Lease::start(params, at(START), &mut actions);
        let mut answer = |lease: &mut Lease, op, answer, now| {
            let event = Event::Answer { node: 0, op, result: Ok(answer), view: None };
            lease.handle(event, at(now), &mut actions);
        };
        let granted = Answer::Granted(GrantedAnswer { accepted: true, fence: 0 });
        let ran = START + self.trips[0];
        answer(&mut lease, OpId::Acquire, granted, ran + self.trips[1]);
        let mut ran_last = ran;
        if self.is_extended {
            let asked = ran + self.trips[1] + 1_000;
            lease.handle(Event::Extend, at(asked), &mut Vec::new());
            ran_last = asked + self.trips[2];
            let extended = Answer::Extended(ExtendedAnswer::UNAWAITED);
            answer(&mut lease, OpId::Extend(at(asked)), extended, ran_last);
        }
        // An acquire's key lives for a node timeout more; not counting it is the harder case.
        (lease.end(), self.clock.shows(ran_last) / 1_000 + micros(self.ttl) / 1_000)
    }

    /// The next client is granted the key as soon as it has expired.
    fn run(&self, slack: Duration) -> Verdict {
        let (end, expiry) = self.hold(slack);
        let mut ran = START;
        while self.clock.shows(ran) / 1_000 <= expiry {
            ran += 100;
        }
        let mut offsets = Offsets::new(Duration::from_secs(60), FACTOR);
        let read = |offsets: &mut Offsets, sent: u64, ran: u64, received: u64| {
            let reading = Interval::new(at(sent), at(received), self.clock.shows(ran));
            offsets.observe(reading, at(sent), at(received))
        };
        let (up, down) = (self.trips[2], self.trips[3]);
        let asked = ran - up;
        // The last reading is as old as it may be. The first one precedes the lease.
        for number in (1..=10_000_000 / self.read_every).rev() {
            let sent = asked - number * self.read_every;
            if read(&mut offsets, sent, sent + self.trips[0], sent + TRIP) != Reading::Steady {
                return Verdict::Seen;
            }
        }

        let received = ran + down;
        let reading = read(&mut offsets, asked, ran, received);

        if reading != Reading::Steady || offsets.is_barred(at(received)) {
            Verdict::Seen
        } else if at(received) >= end {
            Verdict::OneHolder
        } else {
            Verdict::TwoHolders
        }
    }
}

/// Returns the numbers of cases with each verdict: seen, one holder, two holders; and the first case
/// with two.
fn verdicts(slack: fn(Duration, f64) -> Duration) -> ([u64; 3], Option<StepCase>) {
    let mut random = Random(1);
    let (mut counts, mut first) = ([0; 3], None);
    for _ in 0..CASES {
        let case = StepCase::draw(&mut random);
        let verdict = case.run(slack(case.ttl, FACTOR));
        counts[verdict as usize] += 1;
        if verdict == Verdict::TwoHolders {
            first.get_or_insert(case);
        }
    }
    (counts, first)
}

#[test]
fn no_step_makes_two_holders() {
    let ([seen, one, _], two) = verdicts(formulas::slack);

    assert!(two.is_none(), "{two:?}");
    assert!(seen > 500 && one > 500, "{seen} seen, {one} not");
}

#[test]
fn drift_of_ttl_alone_is_too_little() {
    let ([_, _, two], first) = verdicts(formulas::drift);

    assert!(two > 50, "{two} of {CASES}");
    assert!(first.is_some_and(|case| case.ttl < formulas::READING_AGE + formulas::READ_INTERVAL));
}
