//! A year of a job's runs: a square for each day, coloured by how its runs ended.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use maud::{Markup, html};
use tower_redlock::scheduler::{JobRun, JobRunResult};

use super::{standing::is_failure, words::counted};
use crate::text::stamp;

const DAY: u64 = 86_400;
/// Number of weeks, of which the last one is the current one.
const WEEKS: u64 = 53;
/// Distance from one square to the next.
const STEP: u64 = 13;
/// Size of a square.
const SIZE: u64 = 11;
/// Place for the names of the days, and of the months.
const LEFT: u64 = 30;
const TOP: u64 = 16;
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The colours of days, and their meanings.
const KEYS: [(&str, &str); 5] = [
    ("finished", "finished"),
    ("failed", "one or more failed"),
    ("stopped", "stopped or begun"),
    ("none", "no run"),
    ("unknown", "before the history"),
];

/// The runs of a day (UTC).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct DayRuns {
    finished: u64,
    failed: u64,
    /// Stopped, not done, or in progress.
    other: u64,
}

impl DayRuns {
    const fn class(self) -> &'static str {
        if self.failed > 0 {
            "failed"
        } else if self.finished > 0 {
            "finished"
        } else {
            "stopped"
        }
    }

    fn words(self) -> String {
        let Self { finished, failed, other } = self;
        let mut words = counted(finished + failed + other, "run");
        for (count, what) in
            [(finished, "finished"), (failed, "failed"), (other, "stopped or begun")]
        {
            if count > 0 {
                let _ = write!(words, ", {count} {what}");
            }
        }
        words
    }
}

/// Returns the number of a day since the epoch.
fn day(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / DAY
}

/// Returns the number of the day's week, which begins on a Monday, and of its day in it. The epoch was a Thursday.
const fn week(day: u64) -> (u64, u64) {
    ((day + 3) / 7, (day + 3) % 7)
}

fn date(day: u64) -> String {
    let at = UNIX_EPOCH.checked_add(Duration::from_secs(day * DAY));
    let date = at.and_then(stamp).unwrap_or_default();
    date.split('T').next().unwrap_or_default().to_owned()
}

fn days(runs: &[JobRun]) -> BTreeMap<u64, DayRuns> {
    let mut days = BTreeMap::<u64, DayRuns>::new();
    for run in runs {
        let of = days.entry(day(run.started)).or_default();
        match run.result {
            JobRunResult::Finished => of.finished += 1,
            result if is_failure(result) => of.failed += 1,
            _ => of.other += 1,
        }
    }
    days
}

/// Draws the year before a time, as far as the history goes.
pub(super) fn calendar(runs: &[JobRun], now: SystemTime) -> Markup {
    let (days, today) = (days(runs), day(now));
    let first = week(today).0.saturating_sub(WEEKS - 1);
    let is_drawn = |day: u64| day <= today && week(day).0 >= first;
    let place = |day: u64| {
        let (week, weekday) = week(day);
        (LEFT + (week - first) * STEP, TOP + weekday * STEP)
    };
    let oldest = days.first_key_value().map_or(today, |(day, _)| *day);
    let (mut known, mut unknown) = (String::new(), String::new());
    let begin = (first * 7).saturating_sub(3);
    for day in (begin..=today).filter(|day| is_drawn(*day) && !days.contains_key(day)) {
        let (path, (x, y)) = (if day >= oldest { &mut known } else { &mut unknown }, place(day));
        let _ = write!(path, "M{x} {y}h{SIZE}v{SIZE}h-{SIZE}z");
    }
    let (width, height) = (LEFT + WEEKS * STEP, TOP + 7 * STEP);
    let drawn = || days.iter().filter(|(day, _)| is_drawn(**day));
    html! {
        figure.year {
            div #year-scroll.scroll tabindex="0" role="region" aria-label="Runs of the last year" {
                svg.calendar role="img" aria-labelledby="year-drawn" aria-describedby="year-desc"
                    width=(width) height=(height) viewBox={ "0 0 " (width) " " (height) } {
                    title #year-drawn { "Runs of the last year, by day" }
                    desc #year-desc { (summary(&days, oldest)) }
                    (labels(begin, today, first))
                    path.unknown d=(unknown) {}
                    path.none d=(known) {}
                    @for (day, of) in drawn() {
                        @let (x, y) = place(*day);
                        g data-day=(date(*day)) {
                            title { (date(*day)) ": " (of.words()) }
                            rect.(of.class()) x=(x) y=(y) width=(SIZE) height=(SIZE) rx="2" {}
                            @if of.failed > 0 { circle.mark cx=(x + SIZE / 2) cy=(y + SIZE / 2) r="2.5" {} }
                        }
                    }
                }
            }
            figcaption {
                (summary(&days, oldest)) " "
                span.keys { @for (class, words) in KEYS { span { span.key.(class) {} (words) } " " } }
            }
        }
    }
}

fn summary(days: &BTreeMap<u64, DayRuns>, oldest: u64) -> String {
    let failed = days.values().filter(|of| of.failed > 0).count();
    let failures = match failed {
        0 => "none with a failure".into(),
        _ => format!("{failed} with a failure"),
    };
    let days = counted(days.len() as u64, "day");
    format!("The history goes back to {}: runs on {days}, {failures}.", date(oldest))
}

fn labels(begin: u64, today: u64, first: u64) -> Markup {
    let mut months = Vec::new();
    let mut last = String::new();
    for monday in (begin..=today).filter(|day| week(*day).1 == 0) {
        let month = date(monday).get(5..7).unwrap_or_default().to_owned();
        let column = week(monday).0 - first;
        // The first one may be too narrow for its name.
        let has_place = column + 3 < WEEKS && (!last.is_empty() || is_first_days(monday));
        if month != last && has_place {
            months.push((LEFT + column * STEP, month.parse().map_or(0, |month: usize| month - 1)));
        }
        last = month;
    }
    html! {
        @for (x, month) in months { text.label x=(x) y="10" { (MONTHS[month]) } }
        @for (row, name) in [(0, "Mon"), (2, "Wed"), (4, "Fri")] {
            text.label x="0" y=(TOP + row * STEP + SIZE - 2) { (name) }
        }
    }
}

/// Returns whether a day is one of the first seven of its month.
fn is_first_days(day: u64) -> bool {
    date(day).get(8..).and_then(|of| of.parse::<u32>().ok()).is_some_and(|of| of <= 7)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::standing::sample_run;

    /// 2026-11-28, a Saturday.
    const TODAY: u64 = 20_785;

    fn at(day: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(day * DAY + 3_600)
    }

    async fn runs(of: &[(u64, JobRunResult)]) -> Vec<JobRun> {
        let run = sample_run().await;
        let runs = of.iter().map(|(day, result)| {
            let mut run = run.clone();
            (run.started, run.result) = (at(*day), *result);
            run
        });
        runs.collect()
    }

    #[test]
    fn weeks_begin_on_monday() {
        assert_eq!((date(TODAY), week(TODAY).1), ("2026-11-28".into(), 5));
        assert_eq!(week(TODAY - 5).1, 0);
        assert_eq!(week(0), (0, 3));
        assert_eq!(week(TODAY + 2), (week(TODAY).0 + 1, 0));
    }

    #[tokio::test]
    async fn day_has_the_colour_of_its_worst_run() {
        let runs = runs(&[
            (TODAY - 3, JobRunResult::Finished),
            (TODAY - 1, JobRunResult::Finished),
            (TODAY - 1, JobRunResult::Panicked),
            (TODAY, JobRunResult::Stopped),
        ]);

        let drawn = calendar(&runs.await, at(TODAY)).into_string();

        for part in [
            "2026-11-25: 1 run, 1 finished</title><rect class=\"finished\"",
            "2026-11-27: 2 runs, 1 finished, 1 failed</title><rect class=\"failed\"",
            "2026-11-28: 1 run, 1 stopped or begun</title><rect class=\"stopped\"",
            "back to 2026-11-25: runs on 3 days, 1 with a failure",
        ] {
            assert!(drawn.contains(part), "{part}: {drawn}");
        }
        assert_eq!(drawn.matches("<circle").count(), 1);
        // The only day without a run since the history begins: the Thursday of the last week.
        let known = drawn.split_once("class=\"none\" d=\"").unwrap().1.split('"').next().unwrap();
        assert_eq!(known, format!("M{} {}h11v11h-11z", LEFT + 52 * STEP, TOP + 3 * STEP));
    }

    #[tokio::test]
    async fn days_out_of_the_year_are_not_drawn() {
        let runs =
            runs(&[(TODAY - 400, JobRunResult::Failed), (TODAY + 1, JobRunResult::Finished)]);
        let drawn = calendar(&runs.await, at(TODAY)).into_string();
        assert!(!drawn.contains("data-day"), "{drawn}");
        let count = drawn.matches("h11v11h-11z").count();
        assert_eq!(count, 52 * 7 + 6, "each day of the year, and of this week until today");
        assert!(drawn.len() < 20_000, "{} bytes", drawn.len());
    }

    #[tokio::test]
    async fn first_days_of_time_are_drawn() {
        let drawn = calendar(&runs(&[(0, JobRunResult::Finished)]).await, at(1)).into_string();
        assert!(drawn.contains("1970-01-01: 1 run"), "{drawn}");
    }
}
