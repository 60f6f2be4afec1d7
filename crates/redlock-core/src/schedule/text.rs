//! Texts of schedules, for display and comparison.

use std::{fmt, time::Duration};

use super::{
    schedule::{Rule, Schedule},
    wall_time::{DAY, WallTime, millis},
};

impl Schedule {
    /// Returns the canonical text of the ticks: another text means that the schedule was changed.
    ///
    /// Equal on each replica and in each version of the crate, so it must not follow changes of the
    /// displayed text. It omits the jitter, which moves starts, not ticks. A custom rule is
    /// compared by its name only.
    #[doc(hidden)]
    pub fn fingerprint_text(&self) -> String {
        match &self.rule {
            Ok(Rule::Every { period, offset }) => format!("every {period} ms, offset {offset} ms"),
            Ok(Rule::AfterEnd(delay)) => format!("{delay} ms after each end"),
            Ok(Rule::At(tick)) => format!("at {} ms", tick.as_millis()),
            #[cfg(feature = "cron")]
            Ok(Rule::Cron(cron)) => format!("cron {} in {}", cron.canonical(), cron.zone()),
            Ok(Rule::Custom { name, .. }) => format!("custom {name}"),
            Err(error) => format!("none: {error}"),
        }
    }

    /// Reads a [`fingerprint_text`](Self::fingerprint_text); `None` for a custom rule, whose code is not in
    /// it, and for what another version or a build with other features wrote.
    #[doc(hidden)]
    pub fn from_fingerprint_text(text: &str) -> Option<Self> {
        let millis = |text: &str| text.strip_suffix(" ms")?.parse().ok().map(Duration::from_millis);
        let schedule = if let Some(rest) = text.strip_prefix("every ") {
            let (period, offset) = rest.split_once(", offset ")?;
            Self::every(millis(period)?).offset(millis(offset)?)
        } else if let Some(delay) = text.strip_suffix(" after each end") {
            Self::every_after(millis(delay)?)
        } else if let Some(at) = text.strip_prefix("at ") {
            Self::at(WallTime::since_epoch(millis(at)?).into())
        } else {
            cron(text)?
        };
        schedule.check().is_ok().then_some(schedule)
    }

    /// Returns the version of the time zone database, if the ticks depend on it.
    #[doc(hidden)]
    pub fn zone_database(&self) -> Option<&'static str> {
        match &self.rule {
            #[cfg(feature = "cron")]
            Ok(Rule::Cron(cron)) if cron.zone() != "UTC" => super::zone_database_version(),
            _ => None,
        }
    }
}

#[cfg(feature = "cron")]
fn cron(text: &str) -> Option<Schedule> {
    let (expression, zone) = text.strip_prefix("cron ")?.rsplit_once(" in ")?;
    Some(Schedule::cron(expression).ok()?.in_tz(zone).ok()?.into())
}

#[cfg(not(feature = "cron"))]
const fn cron(_: &str) -> Option<Schedule> {
    None
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Schedule({}; jitter {:?})", self.fingerprint_text(), self.jitter)
    }
}

/// For example `every 10 s, up to 2 s later`.
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.rule {
            // Counted from the epoch, so it is a time of the day.
            Ok(Rule::Every { period: DAY, offset }) => {
                write!(f, "every day at {} (UTC)", TimeOfDay(*offset))?;
            }
            Ok(Rule::Every { period, offset }) => {
                match *period {
                    3_600_000 => f.write_str("every hour")?,
                    60_000 => f.write_str("every minute")?,
                    1_000 => f.write_str("every second")?,
                    period => write!(f, "every {}", Span(period))?,
                }
                if *offset > 0 {
                    write!(f, ", offset {}", Span(*offset))?;
                }
            }
            Ok(Rule::AfterEnd(delay)) => write!(f, "{} after the last run", Span(*delay))?,
            Ok(Rule::At(tick)) => write!(f, "once at {tick}")?,
            #[cfg(feature = "cron")]
            Ok(Rule::Cron(cron)) => match cron.daily() {
                Some(seconds) => {
                    write!(f, "every day at {} ({})", TimeOfDay(seconds * 1_000), cron.zone())?;
                }
                None => write!(f, "cron {} ({})", cron.text(), cron.zone())?,
            },
            Ok(Rule::Custom { name, .. }) => f.write_str(name)?,
            Err(error) => write!(f, "none ({error})")?,
        }
        match millis(self.jitter) {
            0 => Ok(()),
            limit => write!(f, ", up to {} later", Span(limit)),
        }
    }
}

/// A span in ms: `2 days`, `1 h 30 min`, `250 ms`.
struct Span(u64);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(DAY, "days"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms")];
        let mut rest = self.0;
        let mut between = "";
        for (unit, name) in units {
            let name = if (name, rest / unit) == ("days", 1) { "day" } else { name };
            if rest >= unit {
                write!(f, "{between}{} {name}", rest / unit)?;
                between = " ";
            }
            rest %= unit;
        }
        Ok(())
    }
}

/// Milliseconds after midnight: `03:00`, `03:00:15`, `03:00:15.250`.
struct TimeOfDay(u64);

impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, millis) = (self.0 / 1_000, self.0 % 1_000);
        write!(f, "{:02}:{:02}", seconds / 3_600, seconds / 60 % 60)?;
        match (seconds % 60, millis) {
            (0, 0) => Ok(()),
            (second, 0) => write!(f, ":{second:02}"),
            (second, millis) => write!(f, ":{second:02}.{millis:03}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn texts_are_read_again() {
        let read = |text: &str| Some(Schedule::from_fingerprint_text(text)?.fingerprint_text());

        for text in ["every 60000 ms, offset 5000 ms", "1000 ms after each end", "at 9000 ms"] {
            assert_eq!(read(text).as_deref(), Some(text));
        }
        let others =
            ["", "custom banking days", "every 0 ms, offset 0 ms", "every 5 ms", "at x ms"];
        for text in others {
            assert_eq!(read(text), None, "{text}");
        }
    }

    /// Stored by others: none of these may ever change.
    #[test]
    fn fingerprints_stay_as_they_are() {
        let text = |schedule: Schedule| schedule.fingerprint_text();

        assert_eq!(text(Schedule::every(60 * SECOND)), "every 60000 ms, offset 0 ms");
        let moved = Schedule::every(60 * SECOND).offset(5 * SECOND);
        assert_eq!(text(moved), "every 60000 ms, offset 5000 ms");
        assert_eq!(text(Schedule::every_after(SECOND)), "1000 ms after each end");
        assert_eq!(text(Schedule::at(UNIX_EPOCH + 9 * SECOND)), "at 9000 ms");
        assert_eq!(text(Schedule::custom("banking days", |_| None)), "custom banking days");
        let jitter = Schedule::every(60 * SECOND).jitter(SECOND);

        assert_eq!(text(jitter), text(Schedule::every(60 * SECOND)), "the ticks are the same");
    }

    #[cfg(feature = "cron")]
    #[test]
    fn cron_fingerprints_ignore_spelling() {
        let text = |expression: &str, zone: &str| {
            let schedule: Schedule =
                Schedule::cron(expression).unwrap().in_tz(zone).unwrap().into();
            schedule.fingerprint_text()
        };
        let weekly = text("0 3 * * mon", "Europe/Berlin");

        assert_eq!(weekly, "cron 0 0 3 * * MON in Europe/Berlin");
        assert_eq!(text(" 0  0 3\t* * Mon\n", "europe/berlin"), weekly);
        assert_eq!(text("@daily", "UTC"), "cron 0 0 0 * * * in UTC");
        let again = Schedule::from_fingerprint_text(&weekly).unwrap();

        assert_eq!(again.fingerprint_text(), weekly);
        assert_ne!(text("0 3 * * MON", "UTC"), weekly);
    }
}
