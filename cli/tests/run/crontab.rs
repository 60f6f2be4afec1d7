//! Lines of a crontab: time zones, copied lines, and ticks that take longer than their interval.

use std::process::Command;

use crate::program::{Running, Site};

const TICK: &str = "echo $REDLOCK_TICK > tick";

/// Returns the time by `date`, in this zone; in that of the host without one.
fn date(zone: Option<&str>, format: &str) -> String {
    let mut command = Command::new("date");
    command.env_remove("TZ").envs(zone.map(|zone| ("TZ", zone))).arg(format!("+{format}"));
    String::from_utf8(command.output().unwrap().stdout).unwrap().trim().to_owned()
}

/// Starts the tick `expression`, a format of `date`, as cron(8) does at the current minute of a zone.
fn start(site: &Site, variables: &[(&str, &str)], expression: &str, more: &[&str]) -> Running {
    let mut args = vec!["--tick", "j", "--cron", expression];
    args.extend_from_slice(more);
    args.extend(["--", "sh", "-c", TICK]);
    let mut command = site.command(&args);
    command.env_remove("TZ").env_remove("CRON_TZ").envs(variables.iter().copied());
    site.start_command(command)
}

/// Starts a line at its local minute, again if the minute ended meanwhile. Returns the tick that was run, and
/// the minute.
fn tick_at_local_minute(zone: Option<&str>, variable: &str, format: &str) -> (String, String) {
    loop {
        let site = Site::new();
        let minute = || date(Some("UTC"), "%Y-%m-%dT%H:%M:00Z");
        let (before, expression) = (minute(), date(zone, format));
        let variables: Vec<_> = zone.map(|zone| (variable, zone)).into_iter().collect();
        start(&site, &variables, &expression, &[]).ends(0, "");
        if before == minute() {
            return (site.read("tick").trim().to_owned(), before);
        }
    }
}

/// Each line was run for another tick where its zone was UTC: that of 15 minutes before, of the day before, of
/// the month before.
#[test]
fn crontab_is_in_the_zone_of_the_host() {
    for (zone, variable, format) in [
        (Some("Asia/Kathmandu"), "TZ", "%-M * * * *"),
        (Some("Asia/Kathmandu"), "CRON_TZ", "%-M * * * *"),
        (Some("America/New_York"), "TZ", "%-M %-H * * *"),
        (Some("Europe/Berlin"), "TZ", "%-M %-H %-d * *"),
        (Some(":Europe/Berlin"), "TZ", "%-M %-H * * *"),
        (Some("/usr/share/zoneinfo/Europe/Berlin"), "TZ", "%-M %-H * * *"),
        (None, "", "%-M %-H * * *"),
    ] {
        let (tick, minute) = tick_at_local_minute(zone, variable, format);
        assert_eq!(tick, minute, "{zone:?} {variable} {format}");
    }
}

#[test]
fn zone_without_a_name_is_78() {
    let site = Site::new();
    let kathmandu = [("TZ", "<+0545>-5:45")];
    start(&site, &kathmandu, "* * * * *", &[]).ends(78, "--tz");
    start(&site, &kathmandu, "* * * * *", &["--tz", "Asia/Kathmandu"]).ends(0, "");
    start(&site, &[("TZ", "UTC0")], "* * * * *", &[]).ends(0, "");
}

#[test]
fn distant_tick_is_told() {
    let site = Site::new();
    // Two to three hours before this start.
    let expression = date(Some("UTC"), "0 %-H * * *");
    let hour: u32 = expression.split(' ').nth(1).unwrap().parse().unwrap();
    let expression = format!("0 {} * * *", (hour + 22) % 24);
    let zone = ["--tz", "UTC"];

    let mut told = start(&site, &[], &expression, &zone);
    told.ends(0, "j: the latest tick in the time zone UTC was at ");
    let output = told.output();
    assert!(output.contains("Z, 2h") && output.contains("m before this start"), "{output}");

    let mut quiet = start(&site, &[], &expression, &["--tz", "UTC", "-q"]);
    quiet.ends(0, "");
    assert_eq!(quiet.output(), "");
    let mut at_its_tick = start(&site, &[], "* * * * *", &zone);
    at_its_tick.ends(0, "");
    assert_eq!(at_its_tick.output(), "");
}
