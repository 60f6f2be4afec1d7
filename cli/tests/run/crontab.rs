//! Lines of a crontab: time zones, copied lines, and ticks that take longer than their interval.

use std::process::Command;

use crate::fixture::{Fixture, Running};

const TICK: &str = "echo $REDLOCK_TICK > tick";

/// Returns the time by `date` in a zone, by default in the zone of the host.
fn date(zone: Option<&str>, format: &str) -> String {
    let mut command = Command::new("date");
    command.env_remove("TZ").envs(zone.map(|zone| ("TZ", zone))).arg(format!("+{format}"));
    String::from_utf8(command.output().unwrap().stdout).unwrap().trim().to_owned()
}

/// Starts the tick `expression`, a format of `date`, as cron(8) does at the current minute of a zone.
fn start(
    fixture: &Fixture,
    variables: &[(&str, &str)],
    expression: &str,
    more: &[&str],
) -> Running {
    let mut args = vec!["--tick", "j", "--cron", expression];
    args.extend_from_slice(more);
    args.extend(["--", "sh", "-c", TICK]);
    let mut command = fixture.command(&args);
    command.env_remove("TZ").env_remove("CRON_TZ").envs(variables.iter().copied());
    fixture.start_command(command)
}

/// Starts a line at its local minute, again if the minute ended meanwhile. Returns the tick that was run, and
/// the minute.
fn tick_at_local_minute(zone: Option<&str>, variable: &str, format: &str) -> (String, String) {
    loop {
        let fixture = Fixture::new();
        let minute = || date(Some("UTC"), "%Y-%m-%dT%H:%M:00Z");
        let (before, expression) = (minute(), date(zone, format));
        let variables: Vec<_> = zone.map(|zone| (variable, zone)).into_iter().collect();
        start(&fixture, &variables, &expression, &[]).ends(0, "");
        if before == minute() {
            return (fixture.read("tick").trim().to_owned(), before);
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
    let kathmandu = [("TZ", "<+0545>-5:45")];
    start(&Fixture::new(), &kathmandu, "* * * * *", &[]).ends(78, "--tz");
    start(&Fixture::new(), &kathmandu, "* * * * *", &["--tz", "Asia/Kathmandu"]).ends(0, "");
    start(&Fixture::new(), &[("TZ", "UTC0")], "* * * * *", &[]).ends(0, "");
}

#[test]
fn distant_tick_is_told() {
    let fixture = Fixture::new();
    // Two to three hours before this start.
    let expression = date(Some("UTC"), "0 %-H * * *");
    let hour: u32 = expression.split(' ').nth(1).unwrap().parse().unwrap();
    let expression = format!("0 {} * * *", (hour + 22) % 24);
    let zone = ["--tz", "UTC"];

    let mut told = start(&fixture, &[], &expression, &zone);
    told.ends(0, "j: the latest tick in the time zone UTC was at ");
    let output = told.output();
    assert!(output.contains("Z, 2h") && output.contains("m before this start"), "{output}");

    let mut quiet = start(&fixture, &[], &expression, &["--tz", "UTC", "-q"]);
    quiet.ends(0, "");
    assert_eq!(quiet.output(), "");
    let mut at_its_tick = start(&fixture, &[], "* * * * *", &zone);
    at_its_tick.ends(0, "");
    assert_eq!(at_its_tick.output(), "");
}

/// Lines of one job name that do not say the same.
mod copied {
    use super::*;

    fn line(fixture: &Fixture, cron: &str, second: u32, command: &str, more: &[&str]) -> Running {
        let at = format!("2025-05-05T12:00:{second:02}Z");
        let mut args = vec!["--tick", "sync", "--tz", "UTC", "--cron", cron, "--at", &at];
        args.extend_from_slice(more);
        args.extend(["--", "sh", "-c", command]);
        fixture.start(&args)
    }

    fn jobs(fixture: &Fixture, args: &[&str]) -> String {
        let mut command = fixture.redlock(&[&["jobs"], args].concat());
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    }

    #[test]
    fn other_command_is_76() {
        let fixture = Fixture::new();
        let eu = || line(&fixture, "* * * * *", 0, "echo eu >> ran", &["--owner", "host-a"]);
        let us = |more: &[&str]| line(&fixture, "* * * * *", 0, "echo us >> ran", more);
        eu().ends(0, "");

        let notify = ["--notify-failure", "echo $REDLOCK_OUTCOME >> told"];
        us(&notify).ends(76, "host-a has begun the tick 2025-05-05T12:00:00Z of sync with another");
        us(&notify).ends(76, "give each a name of its own");
        eu().ends(0, "");

        assert_eq!(
            (fixture.read("ran"), fixture.read("told")),
            ("eu\n".into(), "conflict\n".into())
        );
        assert!(jobs(&fixture, &["list"]).contains("conflict"), "{}", jobs(&fixture, &["list"]));
        let history = jobs(&fixture, &["history", "sync"]);
        assert_eq!(history.matches("conflict").count(), 1, "{history}");
        assert!(history.contains("two programs run under one job name"), "{history}");
    }

    #[test]
    fn other_schedule_with_the_same_tick_is_76() {
        let fixture = Fixture::new();
        line(&fixture, "0 12 * * *", 0, "echo ran > ran", &[]).ends(0, "");
        let mut second = line(&fixture, "0 * * * *", 0, "echo ran > ran", &[]);
        second.ends(76, "by another schedule, cron 0 0 12 * * * in UTC");
    }

    /// A retry would run its own command in the place of the other's.
    #[test]
    fn failed_tick_of_the_other_is_not_repeated() {
        let fixture = Fixture::new();
        line(&fixture, "* * * * *", 0, "exit 3", &["--attempts", "2"]).ends(3, "");
        line(&fixture, "* * * * *", 0, "echo ran > ran", &["--attempts", "2"]).ends(76, "");
        assert_eq!(fixture.read("ran"), "");
    }

    #[test]
    fn lines_with_one_work_id_are_the_same() {
        let fixture = Fixture::new();
        let host = |name| {
            let command = format!("echo {name} >> ran");
            line(&fixture, "* * * * *", 0, &command, &["--work-id", "sync of hosts"])
        };
        host("a").ends(0, "");
        host("b").ends(0, "");
        assert_eq!(fixture.read("ran"), "a\n");
    }

    /// A change of the command is none; a second line with ticks of its own is.
    #[test]
    fn lines_that_alternate_are_a_warning() {
        let fixture = Fixture::new();
        let tick = |second, command| {
            let mut run = line(&fixture, "*/2 * * * * *", second, command, &[]);
            run.ends(0, "");
            run.output()
        };
        tick(0, "true a");
        assert_eq!(tick(2, "true b"), "");
        assert_eq!(tick(4, "true b"), "");
        tick(6, "true a");

        let told = tick(8, "true b");

        assert!(told.contains("two programs run under one job name"), "{told}");
    }
}

/// A run that takes longer than the time between two ticks, of 2 s.
mod piled_up {
    use super::*;

    fn tick(fixture: &Fixture, second: u32, script: &str, more: &[&str]) -> Running {
        let at = format!("2025-05-05T12:00:{second:02}Z");
        let mut args = vec!["--tick", "j", "--cron", "*/2 * * * * *", "--at", &at];
        args.extend(["--notify-failure", "echo $REDLOCK_OUTCOME >> told", "--work-id", "w"]);
        args.extend_from_slice(more);
        args.extend(["--", "sh", "-c", script]);
        fixture.start(&args)
    }

    #[test]
    fn tick_waits_for_its_interval() {
        let fixture = Fixture::new();
        let mut first =
            tick(&fixture, 0, "echo > begun; until [ -e end ]; do sleep 0.01; done", &[]);
        fixture.line_of("begun");

        // Of the same tick, of later ones, and with a limit of its own.
        tick(&fixture, 0, "echo >> more", &[]).ends(0, "");
        assert_eq!(fixture.read("told"), "");
        for second in [2, 4] {
            let mut missed = tick(&fixture, second, "echo >> more", &[]);
            missed.ends(75, "takes longer than the time between two ticks, and this one is missed");
        }
        assert_eq!(fixture.read("told"), "missed\nmissed\n");
        tick(&fixture, 6, "echo >> more", &["-w", "10ms"]).ends(75, "held by");
        assert_eq!(fixture.read("more"), "");

        std::fs::write(fixture.file("end"), "").unwrap();
        first.ends(0, "");
        tick(&fixture, 8, "echo >> more", &[]).ends(0, "");
        assert_eq!(fixture.read("more"), "\n");
    }

    #[test]
    fn servers_that_are_down_end_the_wait() {
        let mut fixture = Fixture::new();
        fixture.servers.iter_mut().for_each(crate::support::RedisServer::kill);
        tick(&fixture, 0, "echo > ran", &[]).ends(69, "");
        assert_eq!(
            (fixture.read("ran"), fixture.read("told")),
            (String::new(), "unavailable\n".into())
        );
    }
}

/// cron(8) mails what is printed, from each host.
#[test]
fn single_server_can_be_accepted() {
    let fixture = Fixture::new();
    let config = fixture.file("one.toml");
    std::fs::write(&config, "ttl = '1s'\nnode_timeout = '100ms'\n").unwrap();
    let run = |more: &[&str]| {
        let mut command = fixture.command(&[more, &["a", "--", "true"]].concat());
        command.env("REDLOCK_NODES", fixture.servers[0].url()).env("REDLOCK_CONFIG", &config);
        let mut run = fixture.start_command(command);
        run.ends(0, "");
        run.output()
    };
    let warning = "a single server: ";
    // The first one also waits for the server's probation.
    assert!(run(&[]).contains(warning));

    assert_eq!(run(&["-q"]), "");
    assert_eq!(run(&["--accept-few-servers"]), "");

    std::fs::write(&config, "ttl = '1s'\naccept_few_servers = true\n").unwrap();
    assert_eq!(run(&[]), "");
}

/// The probation is kept: a server that may have forgotten locks grants none for a TTL.
#[test]
fn accepted_server_keeps_its_probation() {
    let fixture = Fixture::new();
    let config = fixture.file("one.toml");
    std::fs::write(&config, "ttl = '60s'\naccept_few_servers = true\n").unwrap();
    let mut command = fixture.command(&["-n", "a", "--", "true"]);
    command.env("REDLOCK_NODES", fixture.servers[0].url()).env("REDLOCK_CONFIG", &config);
    fixture.start_command(command).ends(69, "in probation");
}
