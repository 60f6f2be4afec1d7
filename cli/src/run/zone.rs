//! The time zone of the host, in which cron(8) reads a crontab.

use std::{
    env,
    path::Path,
    time::{Duration, SystemTime},
};

use jiff::{
    Timestamp,
    tz::{Offset, TimeZone},
};
use tower_redlock::schedule::WallTime;

use crate::{exit::Failure, output::short};

/// The variable by which cronie's crontab(5) has a zone of its own.
const CRON_TZ: &str = "CRON_TZ";
/// The file with the zone of the host; without it, that is UTC.
const LOCALTIME: &str = "/etc/localtime";
/// Minimum time between a tick and a start by cron(8) that is reported: it is shorter than the difference
/// of any two time zones.
const MIN_REPORTED_LATENESS: Duration = Duration::from_secs(5 * 60);

/// Returns the name of the host's zone in the IANA database: from `CRON_TZ`, `TZ`, or `/etc/localtime`.
///
/// # Errors
///
/// The zone has no such name: hosts would not know whether they have the same one.
pub(super) fn of_host() -> Result<String, Failure> {
    let variable = |name| env::var(name).ok().filter(|value: &String| !value.is_empty());
    if let Some(zone) = variable(CRON_TZ) {
        let is_utc = TimeZone::get(&zone).is_ok_and(|zone| is_utc(&zone));
        return Ok(if is_utc { "UTC".into() } else { zone });
    }
    if env::var_os("TZ").is_none() && !Path::new(LOCALTIME).exists() {
        return Ok("UTC".into());
    }
    let source = variable("TZ").map_or_else(|| LOCALTIME.into(), |zone| format!("TZ={zone}"));
    let unnamed = |why: &str| {
        Failure::config(format!("{source} {why}: name the time zone of the crontab with --tz"))
    };
    let zone = TimeZone::try_system().map_err(|error| unnamed(&format!("is no zone ({error})")))?;
    if is_utc(&zone) {
        return Ok("UTC".into());
    }
    let name = zone.iana_name().filter(|name| *name != "Etc/Unknown");
    let name = name.ok_or_else(|| unnamed("has no name in the database of time zones"))?;
    Ok(name.to_owned())
}

/// Returns whether a zone is UTC at all times: hosts have several names for it, and the servers one.
fn is_utc(zone: &TimeZone) -> bool {
    let epoch = Timestamp::UNIX_EPOCH;
    let changes = zone.preceding(epoch).next().or_else(|| zone.following(epoch).next());
    zone.to_offset(epoch) == Offset::UTC && changes.is_none()
}

/// Returns a message if the tick that a start means lies further back than a start by cron(8) at that tick
/// explains.
pub(super) fn doubt(tick: SystemTime, started: SystemTime, zone: &str) -> Option<String> {
    let late = started.duration_since(tick).ok().filter(|late| *late >= MIN_REPORTED_LATENESS)?;
    Some(format!(
        "the latest tick in the time zone {zone} was at {}, {} before this start: if it was started at a tick, \
         the crontab has another zone (--tz); if later, pass the tick's time (--at)",
        WallTime::from(tick),
        short(late)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_utc_are_one_zone() {
        let is_utc = |name| is_utc(&TimeZone::get(name).expect(name));
        assert!(["UTC", "Etc/UTC", "Zulu", "GMT"].into_iter().all(is_utc));
        assert!(!["Europe/Berlin", "Europe/London", "Etc/GMT+1"].into_iter().any(is_utc));
    }

    #[test]
    fn start_at_the_tick_is_not_doubted() {
        let tick = SystemTime::UNIX_EPOCH + Duration::from_secs(86_400);
        let doubt = |seconds| doubt(tick, tick + Duration::from_secs(seconds), "Asia/Kathmandu");
        assert_eq!((doubt(0), doubt(299)), (None, None));
        let text = doubt(900).expect("a zone may be wrong");
        assert!(text.contains("Asia/Kathmandu was at 1970-01-02T00:00:00"), "{text}");
        assert!(super::doubt(tick, tick - Duration::from_secs(900), "UTC").is_none(), "early");
    }
}
