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
//! After the client, the first line may have these parts, each after a tab:
//!
//! 1. the token of the claim; the newest tick that was reported; up to when the nodes had lost
//!    claims when the ticks lost by that were reported; the token of the latest claim that reported
//!    some; start and end of the latest run on demand (zeros: none; end zero: still running);
//! 2. the same of the claim before, without its token; since when the job had the schedule of then,
//!    and its fingerprint (zero: unknown);
//! 3. the owner of the claim before;
//! 4. the client that set its schedule;
//! 5. the version of the time zone database;
//! 6. the schedule's text; empty if it is unknown, or the schedule is that of this claim.
//!
//! An earlier version reads them as a part of the client's name, and may copy that into claims of
//! its own: parts with another token than the claim's are ignored.
//!
//! The token comes first, because nodes that learn from one another keep the claim with the greater
//! number. An earlier version wrote the owner directly after the runs, and reads the text from `#`
//! on as the owner.

use std::{borrow::Cow, fmt::Write as _, io::Write, sync::Arc, time::Duration};

use crate::protocol::{FormerClaim, OnDemandRun, ScheduleMark, TickClaim, TickFates, TickRun};

pub(super) fn write(to: &mut impl Write, claim: &TickClaim) {
    let none = TickRun::new(Duration::ZERO, 0, Duration::ZERO);
    // Writing into memory does not fail.
    let _ = write!(to, "{} ", claim.token);
    let before = claim.before.as_ref().map_or(none, |before| before.run);
    for TickRun { tick, attempt, since, ended } in [claim.run, before] {
        let (tick, since) = (tick.as_millis(), since.as_millis());
        let ended = ended.map_or(0, |ended| ended.as_millis());
        let _ = write!(to, "{tick} {attempt} {since} {ended} ");
    }
    let (since, fingerprint, known) = match &claim.schedule {
        Some(mark) => (mark.since.as_millis(), mark.fingerprint, known(claim, mark)),
        None => (0, 0, Cow::Borrowed(claim.note.as_deref().unwrap_or_default())),
    };
    let (number, len) = (claim.number, known.len());
    let _ = write!(to, "#{number} {since} {fingerprint:x} {len} {known}{}", claim.owner);
}

/// The description of a schedule, with what the claim has beside its run. An earlier version reads it as the
/// name of the schedule's author.
fn known<'a>(claim: &TickClaim, mark: &'a ScheduleMark) -> Cow<'a, str> {
    let ScheduleMark { owner, text, zones, .. } = mark;
    let beside = beside(claim, mark);
    match (text, zones) {
        (None, None) if beside.is_empty() => Cow::Borrowed(owner),
        (None, None) => Cow::Owned(format!("{owner}{beside}")),
        (text, zones) => {
            let [text, zones] = [text, zones].map(|it| it.as_deref().unwrap_or_default());
            Cow::Owned(format!("{owner}{beside}\n{text}\n{zones}"))
        }
    }
}

/// What the claim has beside its run and its schedule; empty if there is nothing.
fn beside(claim: &TickClaim, mark: &ScheduleMark) -> String {
    let before = claim.before.as_ref().filter(|before| **before != FormerClaim::from(before.run));
    if before.is_none() && claim.fates == TickFates::default() {
        return String::new();
    }
    let mut text = format!("\t{} {}", claim.token, fates_text(&claim.fates));
    if let Some(FormerClaim { owner, schedule, fates, .. }) = before {
        let of_mark = |mark: &ScheduleMark| (mark.since.as_millis(), mark.fingerprint);
        let (since, fingerprint) = schedule.as_ref().map_or((0, 0), of_mark);
        let former = schedule.as_ref();
        let by = former.map(|former| &former.owner);
        let zones = former.and_then(|former| former.zones.as_ref());
        let is_same = fingerprint == mark.fingerprint;
        let of_schedule = former.and_then(|former| former.text.as_ref()).filter(|_| !is_same);
        let names = [owner.as_ref(), by, zones].map(|name| name.map_or("", |name| name_text(name)));
        let [owner, by, zones] = names;
        let schedule = of_schedule.map_or("", |text| text);
        // Writing into memory does not fail.
        let _ = write!(
            text,
            "\t{} {since} {fingerprint:x}\t{owner}\t{by}\t{zones}\t{schedule}",
            fates_text(fates)
        );
    }
    text
}

/// A name that was stored with control characters is not of this crate.
fn name_text(name: &str) -> &str {
    if name.contains(char::is_control) { "" } else { name }
}

fn fates_text(TickFates { told, lost_until, told_under, on_demand }: &TickFates) -> String {
    let (since, ended) = on_demand.map_or((0, 0), |run| {
        (run.since.as_millis(), run.ended.map_or(0, |ended| ended.as_millis()))
    });
    let (told, lost_until) = (told.as_millis(), lost_until.as_millis());
    format!("{told} {lost_until} {told_under} {since} {ended}")
}

/// Reads the description of a schedule. Also returns what the claim has beside it, as text.
fn read_known(fingerprint: u64, since: Duration, known: &str) -> (ScheduleMark, Option<&str>) {
    let mut lines = known.splitn(3, '\n');
    let mut line = || lines.next().filter(|line| !line.is_empty());
    let first = line().unwrap_or_default();
    let (owner, beside) =
        first.split_once('\t').map_or((first, None), |(owner, beside)| (owner, Some(beside)));
    let mark = ScheduleMark::new(fingerprint, since, owner.into());
    let mark = ScheduleMark { text: line().map(Into::into), zones: line().map(Into::into), ..mark };
    (mark, beside)
}

/// Adds what a claim has beside its run and its schedule. Leaves out what another claim has.
fn add_beside(claim: &mut TickClaim, text: &str) -> Option<()> {
    let mut parts = text.splitn(6, '\t');
    let (token, fates) = parts.next()?.split_once(' ')?;
    if token.parse() != Ok(claim.token) {
        return None;
    }
    claim.fates = read_fates(&mut fates.split(' '))?;
    let mut numbers = parts.next()?.split(' ');
    let fates = read_fates(&mut numbers)?;
    let since = Duration::from_millis(numbers.next()?.parse().ok()?);
    let fingerprint = u64::from_str_radix(numbers.next()?, 16).ok()?;
    let mut name = || parts.next().map(|name| (!name.is_empty()).then(|| Arc::from(name)));
    let (owner, by, zones, text) = (name()?, name()?, name()?, name()?);
    let known = |fingerprint| {
        let mark = ScheduleMark::new(fingerprint, since, by.unwrap_or_default());
        let own = claim.schedule.as_ref().filter(|own| own.fingerprint == fingerprint);
        ScheduleMark { text: text.or_else(|| own.and_then(|own| own.text.clone())), zones, ..mark }
    };
    let schedule = (fingerprint > 0).then(|| known(fingerprint));
    let before = claim.before.as_mut()?;
    (before.owner, before.schedule, before.fates) = (owner, schedule, fates);
    Some(())
}

fn read_fates<'a>(parts: &mut impl Iterator<Item = &'a str>) -> Option<TickFates> {
    let mut number = || parts.next()?.parse::<u64>().ok();
    let (told, lost_until) = (number()?, number()?);
    let (told, lost_until) = (Duration::from_millis(told), Duration::from_millis(lost_until));
    let (told_under, since, ended) = (number()?, number()?, number()?);
    let on_demand = (since > 0).then(|| OnDemandRun {
        since: Duration::from_millis(since),
        ended: (ended > 0).then(|| Duration::from_millis(ended)),
    });
    Some(TickFates { told, lost_until, told_under, on_demand })
}

/// Parses a claim; returns `None` if this crate did not write it.
pub(super) fn read(text: &str) -> Option<TickClaim> {
    let mut parts = text.splitn(10, ' ');
    let token = parts.next()?.parse().ok()?;
    let run = read_run(&mut parts)?;
    let before = Some(read_run(&mut parts)?).filter(|run| run.attempt > 0).map(FormerClaim::from);
    let rest = parts.next()?;
    Some(match read_rest(rest) {
        Some(RestOfClaim { number, schedule, beside, note, owner }) => {
            let claim = TickClaim::new(token, run, owner.into(), before);
            let mut claim = TickClaim { number, schedule, note, ..claim };
            let _ = beside.and_then(|beside| add_beside(&mut claim, beside));
            claim
        }
        None => TickClaim::new(token, run, rest.into(), before),
    })
}

/// The part of a claim after the runs.
struct RestOfClaim<'a> {
    number: u32,
    schedule: Option<ScheduleMark>,
    beside: Option<&'a str>,
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
    let known = (fingerprint > 0).then(|| read_known(fingerprint, since, by));
    let (schedule, beside) = known.map_or((None, None), |(mark, beside)| (Some(mark), beside));
    let note = (fingerprint == 0 && len > 0).then(|| by.into());
    Some(RestOfClaim { number, schedule, beside, note, owner })
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

    fn fates() -> impl Strategy<Value = TickFates> {
        let ended = prop_oneof![Just(None), (1..u64::MAX).prop_map(|at| Some(ms(at)))];
        let on_demand =
            (1..u64::MAX, ended).prop_map(|(since, ended)| OnDemandRun { since: ms(since), ended });
        let times = (any::<u64>(), any::<u64>());
        (times, any::<u64>(), proptest::option::of(on_demand)).prop_map(
            |((told, lost_until), told_under, on_demand)| {
                let (told, lost_until) = (ms(told), ms(lost_until));
                TickFates { told, lost_until, told_under, on_demand }
            },
        )
    }

    fn marks() -> impl Strategy<Value = ScheduleMark> {
        let text = proptest::option::of(".{1,40}");
        let zones = proptest::option::of("[0-9]{4}[a-z]");
        let name = "[^\\t\\p{C}]{1,40}";
        (1..u64::MAX, any::<u64>(), name, text, zones).prop_map(
            |(fingerprint, since, by, text, zones)| {
                let mark = ScheduleMark::new(fingerprint, ms(since), by.into());
                ScheduleMark { text: text.map(Into::into), zones: zones.map(Into::into), ..mark }
            },
        )
    }

    fn formers() -> impl Strategy<Value = FormerClaim> {
        let owner = proptest::option::of("[^\\t\\p{C}]{1,40}".prop_map(Arc::from));
        (runs(), owner, proptest::option::of(marks()), fates())
            .prop_map(|(run, owner, schedule, fates)| FormerClaim { run, owner, schedule, fates })
    }

    proptest! {
        #[test]
        fn claim_survives_a_round_trip(
            token: u64,
            run in runs(),
            owner in ".{0,40}",
            before in proptest::option::of(formers()),
            number: u32,
            mark in proptest::option::of(marks()),
            is_same: bool,
            fates in fates(),
            note in proptest::option::of("(.|\n){1,40}"),
        ) {
            let mut claim = TickClaim::new(token, run, owner.into(), before).numbered(number);
            if let Some(mark) = mark {
                if is_same && let Some(former) = &mut claim.before {
                    former.schedule = Some(mark.clone());
                }
                claim = claim.by_schedule(mark).with_fates(fates);
            } else {
                // A document has no schedule, and nothing beside it.
                claim.before = claim.before.map(|former| former.run.into());
                claim.note = note.map(Into::into);
            }
            prop_assert_eq!(read(&written(&claim)), Some(claim));
        }

        #[test]
        fn earlier_version_reads_runs_and_schedule(
            token: u64,
            run in runs(),
            before in formers(),
            mark in marks(),
            fates in fates(),
        ) {
            let claim = TickClaim::new(token, run, "me".into(), Some(before));
            let claim = claim.by_schedule(mark.clone()).with_fates(fates);

            // As that version reads it: all of the first line is the client's name.
            let text = written(&claim);
            let known = text.split_once('#').unwrap().1.splitn(5, ' ').nth(4).unwrap();
            let mut lines = known.split('\n');
            let by = lines.next().unwrap().split('\t').next().unwrap();

            prop_assert_eq!(by, &*mark.owner);
            if let Some(schedule) = &mark.text {
                prop_assert_eq!(lines.next(), Some(&**schedule));
            }
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
    }

    /// Stored text outlives the program that wrote it.
    #[test]
    fn text_form_is_stable() {
        let run = TickRun::new(ms(1_000), 2, ms(1_003));
        let before = TickRun::new(ms(500), 1, ms(501)).ended(ms(502));

        let claim = TickClaim::new(7, run, "svc@host:1 a".into(), Some(before.into()));

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

        assert_eq!((&*written(&described), read(text)), (text, Some(described.clone())));

        let on_demand = Some(OnDemandRun { since: ms(600), ended: Some(ms(700)) });
        let fates = TickFates { told: ms(450), lost_until: ms(440), told_under: 5, on_demand };
        let former = ScheduleMark::new(0xac, ms(300), "svc 1".into());
        let mut told = described.with_fates(fates);
        told.before = Some(FormerClaim {
            owner: Some("b".into()),
            schedule: Some(former.described("every 1000 ms, offset 0 ms", None)),
            ..before.into()
        });
        let text = "7 1000 2 1003 0 500 1 501 502 #1 400 ab 118 svc 2\t7 450 440 5 600 700\t\
            0 0 0 0 0 300 ac\tb\tsvc 1\t\tevery 1000 ms, offset 0 ms\n\
            cron 0 0 3 * * * in Europe/Berlin\n2026asvc@host:1 a";
        assert_eq!((&*written(&told), read(text)), (text, Some(told)));

        // An earlier version has copied them from another claim.
        let copied = read(&text.replacen('7', "8", 1)).unwrap();
        assert_eq!((copied.fates, copied.before), (TickFates::default(), Some(before.into())));
        assert_eq!(&*copied.schedule.unwrap().owner, "svc 2");

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
