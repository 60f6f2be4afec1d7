//! Properties of every schedule.

use std::time::Duration;

use proptest::prelude::*;
use tower_redlock::{Schedule, schedule::WallTime};

use crate::schedule::tools::at;

fn periods() -> impl Strategy<Value = Schedule> {
    let millis = prop_oneof![1_u64..100, 1_u64..100_000_000, 1..=WallTime::MAX.as_millis()];
    let with_offset = millis.prop_flat_map(|millis| (Just(millis), 0..millis));
    with_offset.prop_map(|(millis, offset)| {
        Schedule::every(Duration::from_millis(millis)).offset(Duration::from_millis(offset))
    })
}

fn moments() -> impl Strategy<Value = WallTime> {
    let end = WallTime::MAX.as_millis();
    prop_oneof![Just(0), Just(end), 0..=end, 0..4_000_000_000_000_u64].prop_map(at)
}

fn consistent(schedule: &Schedule, after: WallTime) -> Result<(), TestCaseError> {
    let Some(next) = schedule.next(after, None) else { return Ok(()) };
    prop_assert!(next > after);
    prop_assert_eq!(schedule.latest(next), Some(next));
    // Any moment between two ticks has the same answers.
    let middle = at(after.as_millis().midpoint(next.as_millis()));
    prop_assert_eq!(schedule.next(middle, None), Some(next));
    let before = at(next.as_millis() - 1);
    prop_assert_eq!(schedule.next(before, None), Some(next));
    prop_assert_eq!(schedule.latest(before), schedule.latest(after));
    if let Some(second) = schedule.next(next, None) {
        prop_assert!(second > next);
        prop_assert_eq!(schedule.latest(at(second.as_millis() - 1)), Some(next));
        prop_assert!((next..second).contains(&schedule.start("report", next)));
    }
    Ok(())
}

proptest! {
    #[test]
    fn periods_are_consistent(schedule in periods(), after in moments()) {
        consistent(&schedule, after)?;
        consistent(&schedule.jitter(Duration::MAX), after)?;
    }

    #[test]
    fn periods_list_every_tick(
        millis in 1_u64..50, offset in 0_u64..50, from in 0_u64..1_000,
    ) {
        let offset = offset % millis;
        let schedule =
            Schedule::every(Duration::from_millis(millis)).offset(Duration::from_millis(offset));
        let expected: Vec<_> =
            (from + 1..from + 500).filter(|n| n % millis == offset).map(at).collect();
        let ticks = schedule.ticks(at(from), at(from + 499));
        prop_assert_eq!(ticks.clone().collect::<Vec<_>>(), expected.clone());
        let back: Vec<_> = ticks.rev().collect();
        prop_assert!(back.iter().rev().eq(expected.iter()));
    }
}

mod cron {
    use super::*;

    fn field(low: u32, high: u32) -> BoxedStrategy<String> {
        prop_oneof![
            3 => Just("*".to_owned()),
            2 => (low..=high).prop_map(|n| n.to_string()),
            1 => (low..=high, low..=high).prop_map(|(a, b)| format!("{},{}", a.min(b), a.max(b))),
            1 => (low..=high, low..=high).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
            1 => (2..=high - low).prop_map(|step| format!("*/{step}")),
        ]
        .boxed()
    }

    fn expressions() -> impl Strategy<Value = String> {
        let time = (field(0, 59), field(0, 59), field(0, 23));
        // Steps and dates that never match are cases of their own.
        let date = (1_u32..=28, 0_u32..=6).prop_flat_map(|(day, weekday)| {
            let some = [format!("{day} * *"), format!("* * {weekday}"), "* * *".to_owned()];
            proptest::sample::select(some.to_vec())
        });
        (time, date)
            .prop_map(|((second, minute, hour), date)| format!("{second} {minute} {hour} {date}"))
    }

    fn zones() -> impl Strategy<Value = &'static str> {
        proptest::sample::select(vec![
            "UTC",
            "Europe/Berlin",
            "America/New_York",
            "Australia/Lord_Howe",
            "Asia/Kathmandu",
            "Africa/Casablanca",
            "Pacific/Apia",
        ])
    }

    /// Near a change of the clocks in Berlin, or anywhere.
    fn near() -> impl Strategy<Value = WallTime> {
        let change = proptest::sample::select(vec![1_743_296_400_000_u64, 1_761_440_400_000]);
        let close = (change, 0_u64..14_400_000).prop_map(|(at, by)| at + by - 7_200_000);
        prop_oneof![close.prop_map(at), moments()]
    }

    proptest! {
        #[test]
        fn cron_is_consistent(expression in expressions(), zone in zones(), after in near()) {
            let schedule: Schedule = Schedule::cron(expression).unwrap().in_tz(zone).unwrap().into();
            prop_assert_eq!(schedule.check(), Ok(()));
            consistent(&schedule, after)?;
        }

        #[test]
        fn cron_lists_every_tick(
            expression in expressions(), zone in zones(), after in near(),
        ) {
            let schedule: Schedule = Schedule::cron(expression).unwrap().in_tz(zone).unwrap().into();
            // next() from each second of an hour agrees with the list of ticks.
            let from = after.as_millis() / 1_000;
            let row: Vec<_> = schedule.ticks(at(from * 1_000), at((from + 3_600) * 1_000)).collect();
            let mut each: Vec<_> = (from..from + 3_600)
                .filter_map(|second| {
                    let next = schedule.next(at(second * 1_000), None)?;
                    (next <= at((second + 1) * 1_000)).then_some(next)
                })
                .collect();

            each.dedup();

            prop_assert_eq!(row, each);
        }

        #[test]
        fn no_text_causes_a_panic(
            expression in "([-0-9*/,#LW@+? A-Z]|.){0,24}", zone in ".{0,12}",
        ) {
            let _ = Schedule::cron(expression);
            let _ = Schedule::cron("@daily").unwrap().in_tz(zone);
        }
    }
}
