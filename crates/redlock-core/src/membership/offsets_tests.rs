//! Readings of a server's clock, their bounds and their jumps.

use super::*;

const WINDOW: Duration = Duration::from_secs(10);
const FACTOR: f64 = 0.01;

fn at(ms: u64) -> Timestamp {
    Timestamp::ZERO + Duration::from_millis(ms)
}

/// A server that is `ahead` ms ahead, asked at `ms`, with a round trip of `trip` ms.
fn read(offsets: &mut Offsets, ms: u64, trip: u64, ahead: i64) -> Reading {
    let server = i64::try_from((ms + trip / 2) * 1_000).unwrap() + ahead * 1_000;
    let reading = Interval::new(at(ms), at(ms + trip), u64::try_from(server).unwrap());
    offsets.observe(reading, at(ms), at(ms + trip))
}

#[test]
fn slow_answers_are_no_jumps() {
    let mut offsets = Offsets::new(WINDOW, FACTOR);
    for i in 0..100 {
        assert_eq!(read(&mut offsets, 1_000 + i * 500, i * 37 % 3_000, 5), Reading::Steady);
    }
}

#[test]
fn slightly_different_rates_are_steady() {
    let mut offsets = Offsets::new(WINDOW, FACTOR);
    // 0.5 %: half of what the drift allowance grants.
    for second in 0..1_000_u32 {
        let ms = 1_000 + u64::from(second) * 1_000;
        assert_eq!(read(&mut offsets, ms, 1, i64::from(second) * 5), Reading::Steady);
    }
}

#[test]
fn jump_bars_once_for_the_window() {
    for by in [31_000_i64, -900, 200] {
        let mut offsets = Offsets::new(WINDOW, FACTOR);

        assert_eq!(read(&mut offsets, 5_000, 2, 0), Reading::Steady);
        let Reading::Jumped { by: size, since } = read(&mut offsets, 6_000, 2, by) else {
            panic!("a jump by {by} ms was missed")
        };
        assert_eq!(since, at(5_000));
        if by > 0 {
            assert!(size.low <= by * 1_000 && by * 1_000 <= size.high, "{size:?}");
            assert!(size.low > 0);
        } else {
            assert!(size.low < 0, "{size:?}");
        }

        assert!(offsets.is_barred(at(6_002)) && offsets.is_barred(at(16_001)));
        assert!(!offsets.is_barred(at(16_002)));
        assert_eq!(read(&mut offsets, 7_000, 2, by), Reading::Steady);
    }
}

/// A lock of 300 ms sets 5 ms aside, in a set whose `max_ttl` is 10 s.
#[test]
fn shortest_locks_allowance_reveals_jump() {
    let mut offsets = Offsets::new(WINDOW, FACTOR);
    assert_eq!(read(&mut offsets, 5_000, 0, 0), Reading::Steady);
    assert_eq!(read(&mut offsets, 8_000, 0, 0), Reading::Steady, "when it granted");
    assert_ne!(read(&mut offsets, 8_300, 0, 6), Reading::Steady);
}

#[test]
fn difference_equal_to_drift_is_steady() {
    // 1 % of a second and 2 ms, in µs.
    let allowed = 12_000;

    for (low, high, is_steady) in [
        (allowed, allowed + 5, true),
        (allowed + 1, allowed + 5, false),
        (-allowed - 5, -allowed, true),
        (-allowed - 5, -allowed - 1, false),
    ] {
        let mut offsets = Offsets::new(WINDOW, FACTOR);
        offsets.observe(Interval { low: 0, high: 0 }, at(5_000), at(5_000));
        let reading = offsets.observe(Interval { low, high }, at(6_000), at(6_000));
        assert_eq!(reading == Reading::Steady, is_steady, "{low} to {high}");
    }
}

#[test]
fn readings_share_few_buckets() {
    let mut offsets = Offsets::new(WINDOW, FACTOR);
    for i in 0..600 {
        assert_eq!(read(&mut offsets, 5_000 + 100 * i, 0, 0), Reading::Steady);
    }
    let kept = offsets.buckets.len();
    assert!((8..=10).contains(&kept), "{kept} buckets");
}

#[test]
fn small_steps_add_up() {
    let mut offsets = Offsets::new(WINDOW, FACTOR);
    let steps = (0..40).map(|i| read(&mut offsets, 5_000 + 300 * i, 0, 4 * i.cast_signed()));
    assert!(steps.collect::<Vec<_>>().iter().any(|step| *step != Reading::Steady));
}

#[test]
fn overcorrected_clock_accuses_nobody() {
    let mut offsets = Offsets::new(WINDOW, FACTOR);
    assert_eq!(read(&mut offsets, 5_000, 0, 0), Reading::Steady);
    offsets.widen(Duration::from_millis(200));
    assert_eq!(read(&mut offsets, 6_000, 0, -190), Reading::Steady);
    assert_ne!(read(&mut offsets, 6_500, 0, 30), Reading::Steady, "a jump all the same");
}

#[test]
fn jump_in_small_steps_is_one() {
    let mut offsets = Offsets::new(WINDOW, FACTOR);
    let steps =
        (0..10).map(|i| read(&mut offsets, 5_000 + 500 * i, 1, 30 * i64::try_from(i).unwrap()));
    assert!(steps.collect::<Vec<_>>().iter().any(|step| *step != Reading::Steady));
}

#[test]
fn reading_bounds_the_clocks_advance() {
    let mut offsets = Offsets::new(WINDOW, FACTOR);
    let server =
        |ms: u64, trip, ahead: u64| Interval::new(at(ms), at(ms + trip), (ms + ahead) * 1_000);

    assert_eq!(offsets.shift(server(5_000, 2, 0), at(5_000), at(5_002)), None);
    offsets.observe(server(5_000, 2, 0), at(5_000), at(5_002));
    let shift = |ms, trip, ahead| {
        let shift = offsets.shift(server(ms, trip, ahead), at(ms), at(ms + trip)).unwrap();
        assert_eq!((shift.from, shift.asked), (at(5_002), at(ms)));
        shift.at_most
    };

    // The first trip's 2 ms, 2 µs of rounding, and the drift since the first request: 1 % and 2 ms.
    assert_eq!(shift(6_000, 2, 1), 1_000 + 2_000 + 2 + 12_020);
    assert_eq!(shift(6_000, 1_002, 1), 1_000 + 2_000 + 2 + 22_020, "a slow answer");
    assert_eq!(shift(6_000, 2, 700), 700_000 + 2_000 + 2 + 12_020, "a jump itself");
}

#[test]
fn earlier_bar_outlives_forgiveness() {
    let mut offsets = Offsets::new(WINDOW, FACTOR);
    read(&mut offsets, 5_000, 2, 0);
    assert_ne!(read(&mut offsets, 6_000, 2, 300_000), Reading::Steady, "its own jump");
    assert_ne!(read(&mut offsets, 9_000, 2, 303_000), Reading::Steady, "our clock stood still");
    offsets.forgive();
    assert!(offsets.is_barred(at(16_001)) && !offsets.is_barred(at(16_002)));
    assert_eq!(read(&mut offsets, 12_000, 2, 300_000), Reading::Steady);
}

#[test]
fn local_fault_is_forgiven() {
    let mut offsets = Offsets::new(WINDOW, FACTOR);
    read(&mut offsets, 5_000, 2, 0);
    assert_ne!(read(&mut offsets, 6_000, 2, 3_000), Reading::Steady);
    offsets.forgive();
    assert!(!offsets.is_barred(at(6_002)));
    assert_eq!(read(&mut offsets, 10_000, 2, 0), Reading::Steady);
}

#[test]
fn old_readings_are_dropped() {
    let mut offsets = Offsets::new(WINDOW, FACTOR);

    read(&mut offsets, 5_000, 0, 0);
    let from = |offsets: &Offsets, ms| {
        offsets.shift(Interval { low: 0, high: 0 }, at(ms), at(ms)).unwrap().from
    };
    read(&mut offsets, 15_000, 0, 0);
    assert_eq!(from(&offsets, 15_000), at(5_000), "the window includes its start");
    read(&mut offsets, 15_001, 0, 0);
    assert_eq!(from(&offsets, 15_001), at(15_000));
    offsets.set_window(WINDOW * 2);
    read(&mut offsets, 35_001, 0, 0);

    assert_eq!(from(&offsets, 35_001), at(15_000), "a longer window");
}

#[test]
fn slow_answers_leave_lead_known() {
    let mut offsets = Offsets::new(WINDOW, FACTOR);
    assert_eq!(offsets.ahead(), None);
    read(&mut offsets, 5_000, 0, 40);
    read(&mut offsets, 8_000, 1_000, 40);
    assert_eq!(offsets.ahead(), Some(40_000 - 1), "less the rounding");
}

/// Rates within the factor, and round trips of any length, are no jumps.
#[test]
fn drift_and_slow_answers_never_accuse() {
    let mut state = 7_u64;
    let mut below = |limit: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    let mut one_of = |limits: [u64; 3]| {
        let limit = limits[usize::try_from(below(3)).unwrap()];
        (limit, below(limit))
    };
    for faster in [-9_900_i64, -5_000, 0, 5_000, 9_900] {
        let mut offsets = Offsets::new(WINDOW, FACTOR);
        let mut sent = 5_000_000_u64;
        for _ in 0..5_000 {
            let (trip, up) = one_of([1_000, 20_000, 600_000]);
            let down = trip - up;
            let ran = sent + up;
            let gained = i64::try_from(ran).unwrap() * faster / 1_000_000;
            let shown = ran.checked_add_signed(gained).unwrap();
            let [asked, received] =
                [sent, ran + down].map(|us| Timestamp::ZERO + Duration::from_micros(us));

            let reading = offsets.observe(Interval::new(asked, received, shown), asked, received);

            assert_eq!(reading, Reading::Steady, "{faster} millionths, {trip} µs");
            sent = ran + down + one_of([10_000, 1_000_000, 5_000_000]).1;
        }
    }
}

#[test]
fn step_above_the_formula_is_seen() {
    for (age, up) in [(1_000, 0), (1_000, 5), (2_000, 3), (5_000, 20)] {
        let (age, up) = (Duration::from_millis(age), Duration::from_millis(up));
        let limit = formulas::unseen_step(age, up, FACTOR);
        let sees = |step: Duration| {
            let mut offsets = Offsets::new(WINDOW, FACTOR);
            let ran = at(5_000) + up;
            let shown = |at: Timestamp, step: Duration| {
                u64::try_from((Duration::from_nanos(at.as_nanos()) + step).as_micros()).unwrap()
            };
            offsets.observe(
                Interval::new(at(5_000), ran, shown(ran, Duration::ZERO)),
                at(5_000),
                ran,
            );
            let later = ran + age;
            let reading = Interval::new(later, later, shown(later, step));
            offsets.observe(reading, later, later) != Reading::Steady
        };

        assert!(!sees(limit.saturating_sub(Duration::from_millis(1))), "{age:?}, {up:?}");
        assert!(sees(limit + Duration::from_millis(1)), "{age:?}, {up:?}");
    }
}
