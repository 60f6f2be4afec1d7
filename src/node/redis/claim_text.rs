//! The text form of a job's claim on a server.
//!
//! Its fields are separated by spaces:
//!
//! 1. the token;
//! 2. tick, attempt, start and end of the current run (end zero: still running), then the same of
//!    the previous run (zeros: none);
//! 3. `#` and the claim's number;
//! 4. the time since which the job has its schedule, and the schedule's fingerprint (zero:
//!    unknown);
//! 5. the length of the description, the description, and the owner, which follows without a
//!    separator.
//!
//! The description of a schedule has three lines: the client that set it, its text, and the version
//! of the time zone database. A document has no schedule; its text takes the place of the
//! description.
//!
//! The token comes first, because nodes that learn from one another keep the claim with the greater
//! number. An earlier version wrote the owner directly after the runs, and reads the text from `#`
//! on as the owner.

use std::{borrow::Cow, io::Write, sync::Arc, time::Duration};

use crate::protocol::{ScheduleMark, TickClaim, TickRun};

pub(super) fn write(to: &mut impl Write, claim: &TickClaim) {
    let none = TickRun::new(Duration::ZERO, 0, Duration::ZERO);
    // Writing into memory does not fail.
    let _ = write!(to, "{} ", claim.token);
    for TickRun { tick, attempt, since, ended } in [claim.run, claim.before.unwrap_or(none)] {
        let (tick, since) = (tick.as_millis(), since.as_millis());
        let ended = ended.map_or(0, |ended| ended.as_millis());
        let _ = write!(to, "{tick} {attempt} {since} {ended} ");
    }
    let (since, fingerprint, known) = match &claim.schedule {
        Some(mark) => (mark.since.as_millis(), mark.fingerprint, known(mark)),
        None => (0, 0, Cow::Borrowed(claim.note.as_deref().unwrap_or_default())),
    };
    let (number, len) = (claim.number, known.len());
    let _ = write!(to, "#{number} {since} {fingerprint:x} {len} {known}{}", claim.owner);
}

/// The description of a schedule. An earlier version reads it as the name of the schedule's author.
fn known(mark: &ScheduleMark) -> Cow<'_, str> {
    let ScheduleMark { owner, text, zones, .. } = mark;
    match (text, zones) {
        (None, None) => Cow::Borrowed(owner),
        (text, zones) => {
            let [text, zones] = [text, zones].map(|it| it.as_deref().unwrap_or_default());
            Cow::Owned(format!("{owner}\n{text}\n{zones}"))
        }
    }
}

fn read_known(fingerprint: u64, since: Duration, known: &str) -> ScheduleMark {
    let mut lines = known.splitn(3, '\n');
    let mut line = || lines.next().filter(|line| !line.is_empty()).map(Arc::from);
    let mark = ScheduleMark::new(fingerprint, since, line().unwrap_or_default());
    ScheduleMark { text: line(), zones: line(), ..mark }
}

/// Parses a claim; returns `None` if this crate did not write it.
pub(super) fn read(text: &str) -> Option<TickClaim> {
    let mut parts = text.splitn(10, ' ');
    let token = parts.next()?.parse().ok()?;
    let run = read_run(&mut parts)?;
    let before = Some(read_run(&mut parts)?).filter(|run| run.attempt > 0);
    let rest = parts.next()?;
    Some(match read_rest(rest) {
        Some(RestOfClaim { number, schedule, note, owner }) => {
            let claim = TickClaim::new(token, run, owner.into(), before);
            TickClaim { number, schedule, note, ..claim }
        }
        None => TickClaim::new(token, run, rest.into(), before),
    })
}

/// The part of a claim after the runs.
struct RestOfClaim<'a> {
    number: u32,
    schedule: Option<ScheduleMark>,
    note: Option<Arc<str>>,
    owner: &'a str,
}

/// Returns `None` for a claim of an earlier version.
fn read_rest(text: &str) -> Option<RestOfClaim<'_>> {
    let mut parts = text.strip_prefix('#')?.splitn(5, ' ');
    let number = parts.next()?.parse().ok()?;
    let since = Duration::from_millis(parts.next()?.parse().ok()?);
    let fingerprint = u64::from_str_radix(parts.next()?, 16).ok()?;
    let len = parts.next()?.parse().ok()?;
    let (by, owner) = parts.next()?.split_at_checked(len)?;
    let schedule = (fingerprint > 0).then(|| read_known(fingerprint, since, by));
    let note = (fingerprint == 0 && len > 0).then(|| by.into());
    Some(RestOfClaim { number, schedule, note, owner })
}

fn read_run<'a>(parts: &mut impl Iterator<Item = &'a str>) -> Option<TickRun> {
    let tick = Duration::from_millis(parts.next()?.parse().ok()?);
    let attempt = parts.next()?.parse().ok()?;
    let since = Duration::from_millis(parts.next()?.parse().ok()?);
    let ended = parts.next()?.parse().ok()?;
    let run = TickRun::new(tick, attempt, since);
    Some(if ended > 0 { run.ended(Duration::from_millis(ended)) } else { run })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(claim: &TickClaim) -> String {
        let mut text = Vec::new();
        write(&mut text, claim);
        String::from_utf8(text).unwrap()
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn runs() -> impl Strategy<Value = TickRun> {
        let ended = prop_oneof![Just(None), (1..u64::MAX).prop_map(|at| Some(ms(at)))];
        (any::<u64>(), 1..u32::MAX, any::<u64>(), ended).prop_map(
            |(tick, attempt, since, ended)| TickRun {
                ended,
                ..TickRun::new(ms(tick), attempt, ms(since))
            },
        )
    }

    proptest! {
        #[test]
        fn claim_survives_a_round_trip(
            token: u64,
            run in runs(),
            owner in ".{0,40}",
            before in proptest::option::of(runs()),
            number: u32,
            schedule in proptest::option::of((1..u64::MAX, any::<u64>(), ".{0,40}")),
            text in proptest::option::of(".{1,40}"),
            zones in proptest::option::of("[0-9]{4}[a-z]"),
            note in proptest::option::of("(.|\n){1,40}"),
        ) {
            let mut claim = TickClaim::new(token, run, owner.into(), before).numbered(number);
            claim.schedule = schedule.map(|(fingerprint, since, by)| {
                let mark = ScheduleMark::new(fingerprint, ms(since), by.into());
                ScheduleMark { text: text.map(Into::into), zones: zones.map(Into::into), ..mark }
            });
            // A document has no schedule.
            claim.note = note.filter(|_| claim.schedule.is_none()).map(Into::into);
            prop_assert_eq!(read(&written(&claim)), Some(claim));
        }

        #[test]
        fn claim_of_earlier_version_is_read(
            token: u64,
            run in runs(),
            owner in "[^#].{0,40}",
        ) {
            let ended = run.ended.map_or(0, |ended| ended.as_millis());
            let (tick, since) = (run.tick.as_millis(), run.since.as_millis());
            let text = format!("{token} {tick} {} {since} {ended} 0 0 0 0 {owner}", run.attempt);
            prop_assert_eq!(read(&text), Some(TickClaim::new(token, run, owner.into(), None)));
        }

        #[test]
        fn truncated_claim_is_rejected(run in runs(), keep in 0_usize..9) {
            let text = written(&TickClaim::new(7, run, "me".into(), None));
            let parts: Vec<&str> = text.split(' ').take(keep).collect();
            prop_assert_eq!(read(&parts.join(" ")), None);
        }

        #[test]
        fn any_text_is_read_without_panic(text in ".{0,60}") {
            let _ = read(&text);
        }
    }

    /// Stored text outlives the program that wrote it.
    #[test]
    fn text_form_is_stable() {
        let run = TickRun::new(ms(1_000), 2, ms(1_003));
        let before = TickRun::new(ms(500), 1, ms(501)).ended(ms(502));

        let claim = TickClaim::new(7, run, "svc@host:1 a".into(), Some(before));

        assert_eq!(read("7 1000 2 1003 0 500 1 501 502 svc@host:1 a"), Some(claim.clone()));

        let mark = ScheduleMark::new(0xab, ms(400), "svc 2".into());
        let claim = claim.numbered(1).by_schedule(mark);
        let text = "7 1000 2 1003 0 500 1 501 502 #1 400 ab 5 svc 2svc@host:1 a";
        assert_eq!((&*written(&claim), read(text)), (text, Some(claim.clone())));

        let mark = ScheduleMark::new(0xab, ms(400), "svc 2".into());
        let mark = mark.described("cron 0 0 3 * * * in Europe/Berlin", Some("2026a"));
        let described = claim.by_schedule(mark);
        let text = "7 1000 2 1003 0 500 1 501 502 #1 400 ab 45 \
            svc 2\ncron 0 0 3 * * * in Europe/Berlin\n2026asvc@host:1 a";

        assert_eq!((&*written(&described), read(text)), (text, Some(described)));

        let claim = TickClaim::new(7, run.ended(ms(1_009)), "".into(), None);
        assert_eq!(written(&claim), "7 1000 2 1003 1009 0 0 0 0 #0 0 0 0 ");
        assert_eq!(read("7 1000 2 1003 1009 0 0 0 0 "), Some(claim));

        let claim = TickClaim::of_document(7, 2, "me".into(), "1\nend\n".into());
        let text = "7 0 1 0 0 0 0 0 0 #2 0 0 6 1\nend\nme";
        assert_eq!((&*written(&claim), read(text)), (text, Some(claim)));

        // What only begins like it is the owner of an earlier version.
        let owners = ["#", "#1", "#1 2 3 9 short", "#x 0 0 0 ", "#1 0 0 1 ä"];
        for owner in owners {
            let read = read(&format!("7 1000 2 1003 1009 0 0 0 0 {owner}")).unwrap();
            assert!(read.schedule.is_none(), "{owner}");
        }
    }

    #[test]
    fn malformed_text_is_not_a_claim() {
        let texts = [
            "",
            " ",
            "nonsense",
            "7",
            "-7 1 1 1 0 0 0 0 0 me",
            "7 x 1 1 0 0 0 0 0 me",
            "7 1 4294967296 1 0 0 0 0 0 me",
            "7 18446744073709551616 1 1 0 0 0 0 0 me",
            "7 1 1 1 0 0 0 0 0",
            "7  1 1 1 0 0 0 0 0 me",
            "7 1 1 1 0 0 0 0 x me",
        ];

        for text in texts {
            assert_eq!(read(text), None, "{text:?}");
        }
    }
}
