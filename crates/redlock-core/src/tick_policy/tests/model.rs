//! Every answer against a list of all ticks.

use proptest::{collection::btree_set, option, prelude::*};

use super::{
    super::{MAX_STEPS, next_overlap},
    *,
};

/// Number of moments, in milliseconds: small, so that random cases coincide often.
const MOMENTS: u64 = 120;

#[derive(Clone, Debug)]
struct Case {
    ticks: Vec<u64>,
    jitter: u64,
    policy: Policy,
    record: JobRecord,
    now: WallTime,
}

impl Case {
    fn schedule(&self) -> Schedule {
        let ticks = self.ticks.clone();
        let next = move |after: WallTime| {
            let index = ticks.partition_point(|tick| *tick <= after.as_millis());
            ticks.get(index).copied().map(WallTime::from_millis)
        };
        Schedule::custom("model", next).jitter(Duration::from_millis(self.jitter))
    }

    /// Returns the ticks that are not settled, and their starts.
    fn ahead(&self) -> Vec<(WallTime, WallTime)> {
        let schedule = self.schedule();
        let floor = self.record.base.max(self.record.tick.unwrap_or(WallTime::ZERO));
        let ticks = self.ticks.iter().copied().map(WallTime::from_millis);
        let ticks = ticks.filter(|tick| *tick > floor);
        ticks.map(|tick| (tick, schedule.start(JOB, tick))).collect()
    }

    fn pending(&self) -> Vec<(WallTime, WallTime)> {
        self.ahead().into_iter().filter(|(_, start)| *start <= self.now).collect()
    }

    /// Returns the pending ticks that run, in their order.
    fn expected(&self) -> Vec<WallTime> {
        let pending = self.pending();
        let Some(newest) = pending.last().copied() else { return Vec::new() };
        let passed = |since: WallTime| {
            let millis = self.now.as_millis().saturating_sub(since.as_millis());
            Duration::from_millis(millis)
        };
        let on_time = match self.record.last_end {
            Some(end) if end >= newest.1 => {
                self.policy.overlap != Overlap::Skip && passed(end) <= self.policy.start_within
            }
            _ => passed(newest.1) <= self.policy.start_within,
        };
        let made_up_for = |tick: &(WallTime, WallTime)| {
            on_time && *tick == newest || passed(tick.1) <= self.policy.catch_up
        };
        let (candidates, at_most) = match self.policy.missed {
            Missed::Skip => (Vec::new(), 0),
            Missed::RunLatest => (vec![newest], 1),
            Missed::RunAll { at_most } => (pending, at_most),
        };
        if at_most == 0 {
            return if on_time { vec![newest.0] } else { Vec::new() };
        }
        let runs: Vec<_> = candidates.into_iter().filter(made_up_for).map(|tick| tick.0).collect();
        runs[runs.len().saturating_sub(at_most)..].to_vec()
    }
}

fn case() -> impl Strategy<Value = Case> {
    let moment = || (0..MOMENTS).prop_map(WallTime::from_millis);
    let duration = || (0..MOMENTS).prop_map(Duration::from_millis);
    let missed = prop_oneof![
        Just(Missed::Skip),
        Just(Missed::RunLatest),
        (0..8_usize).prop_map(|at_most| Missed::RunAll { at_most }),
        Just(Missed::RunAll { at_most: usize::MAX }),
    ];
    let overlap = prop_oneof![Just(Overlap::Skip), Just(Overlap::Queue), Just(Overlap::Stop)];
    let policy = (missed, duration(), duration(), overlap).prop_map(
        |(missed, catch_up, start_within, overlap)| Policy {
            missed,
            catch_up,
            start_within,
            overlap,
            ..Policy::default()
        },
    );
    let record = (option::of(moment()), option::of(moment()), moment())
        .prop_map(|(tick, last_end, base)| JobRecord { tick, last_end, ..JobRecord::new(base) });
    (btree_set(1..MOMENTS, 0..40), 0..30_u64, policy, record, moment()).prop_map(
        |(ticks, jitter, policy, record, now)| Case {
            ticks: ticks.into_iter().collect(),
            jitter,
            policy,
            record,
            now,
        },
    )
}

proptest! {
    #[test]
    fn expected_ticks_run_in_order(case in case()) {
        let (runs, given_up) = drain(&case.schedule(), &case.policy, case.record.clone(), case.now);
        prop_assert_eq!(&runs, &case.expected());
        prop_assert!(runs.is_sorted());
        let missed: u64 = given_up.iter().map(|missed| missed.count).sum();
        prop_assert_eq!(missed + runs.len() as u64, case.pending().len() as u64);
    }

    #[test]
    fn answers_exceed_watermark_and_match_now(case in case()) {
        let ahead = case.ahead();
        let pending = case.pending();
        let expected = case.expected().first().copied();
        let missed = match due(&case.schedule(), JOB, &case.policy, &case.record, case.now) {
            Due::Run { tick, start, again, missed } => {
                prop_assert!(!again);
                prop_assert_eq!(Some(tick), expected);
                prop_assert!(start <= case.now);
                prop_assert!(pending.contains(&(tick, start)));
                missed
            }
            Due::Wait { tick, start, missed } => {
                prop_assert_eq!(None, expected);
                prop_assert!(start > case.now);
                prop_assert_eq!(ahead.get(pending.len()), Some(&(tick, start)));
                missed
            }
            Due::Never { missed } => {
                prop_assert_eq!(None, expected);
                prop_assert_eq!(ahead.len(), pending.len());
                missed
            }
        };
        let given_up: Vec<_> = pending
            .iter()
            .map(|tick| tick.0)
            .take_while(|tick| Some(*tick) != expected)
            .collect();

        prop_assert_eq!(missed, given_up.first().map(|first| MissedTicks {
            count: given_up.len() as u64,
            at_least: given_up.len() > MAX_STEPS,
            first: *first,
            last: given_up[given_up.len() - 1],
        }));
    }

    #[test]
    fn without_catch_up_nothing_runs_late(case in case()) {
        let policy = Policy { missed: Missed::Skip, overlap: Overlap::Skip, ..case.policy.clone() };
        let answer = due(&case.schedule(), JOB, &policy, &case.record, case.now);
        if let Due::Run { start, .. } = answer {
            let late = case.now.as_millis() - start.as_millis();
            prop_assert!(Duration::from_millis(late) <= policy.start_within);
        }
    }

    #[test]
    fn overlaps_start_after_seen_ticks(case in case()) {
        let running = case.record.tick.unwrap_or(case.record.base);
        let record = JobRecord { base: WallTime::ZERO, tick: Some(running), ..case.record.clone() };
        let ahead = Case { record, ..case.clone() }.ahead();
        let first = ahead.into_iter().find(|(_, start)| *start > case.now);
        prop_assert_eq!(next_overlap(&case.schedule(), JOB, running, case.now), first);
    }

    #[test]
    fn delay_passes_before_each_run(
        case in case(),
        delay in 1..MOMENTS,
    ) {
        let schedule = Schedule::every_after(Duration::from_millis(delay))
            .jitter(Duration::from_millis(case.jitter));

        match due(&schedule, JOB, &case.policy, &case.record, case.now) {
            Due::Run { tick, start, .. } => {
                prop_assert!(start <= case.now && tick <= case.now);
                prop_assert!(case.record.tick < Some(tick));
                if let Some(end) = case.record.last_end.or(case.record.tick) {
                    prop_assert!(end.as_millis() + delay <= case.now.as_millis());
                }
            }
            Due::Wait { tick, start, .. } => {
                prop_assert!(start > case.now);
                prop_assert!(case.record.tick < Some(tick));
            }
            Due::Never { .. } => prop_assert!(false, "there is always another run"),
        }
    }
}
