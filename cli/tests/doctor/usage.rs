//! Bad usage, and secrets that are never shown.

use crate::program::{Doctor, run, with_doctor};

#[test]
fn help_lists_exit_codes() {
    let outcome = run("", &["--help"]);
    outcome.is(0, &["Usage: redlock", "64  wrong usage", "REDLOCK_NODES", "doctor", "adopt"]);
    let outcome = run("", &["doctor", "--help"]);
    outcome.is(0, &["Usage: redlock doctor", "0  healthy", "--wait", "--check"]);
}

#[test]
fn version_of_time_zones_is_shown() {
    let zones = tower_redlock::schedule::zone_database_version().unwrap();
    run("", &["--version"]).is(0, &["redlock 0.", &format!("(time zones {zones})")]);
    let (_servers, doctor) = with_doctor(3);
    doctor.run(&[]).is(0, &[&format!("time zone database of this command: {zones}")]);
    assert_eq!(doctor.run(&["--json"]).json()["time_zones"], zones);
}

#[test]
fn bad_usage_has_its_exit_code() {
    let cases: &[(&[&str], &str)] = &[
        (&["doctor", "--bogus"], "unexpected argument '--bogus'"),
        (&["doctor", "--ttl", "10"], "a duration such as 10s"),
        (&["doctor", "--ttl"], "a value is required for '--ttl"),
        (&["doctor", "--restart-guard", "on"], "probation, off"),
        (&["adopt"], "--from"),
        (&["doctor", "--from", "redis://h"], "unexpected argument '--from'"),
        (&["inspect", "a", "break", "a"], "unexpected argument 'break'"),
        (&["doctor", "--yes"], "unexpected argument '--yes'"),
        (&["doctor", "--timeout", "5s"], "--wait"),
        (&["doctor", "--check", "--wait"], "cannot be used with"),
        (&["adopt", "--from", "redis://h", "--timeout", "soon"], "a duration such as 10s"),
        (&["bogus"], "unrecognized subcommand 'bogus'"),
    ];
    for (args, words) in cases {
        run("", args).is(64, &["error: ", words]);
    }
    run("redis://127.0.0.1:1", &["inspect", ""]).is(64, &["redlock: ", "invalid resource"]);
    let settings: &[(&[&str], &str)] = &[
        (&["doctor", "--config", "/nonexistent.toml"], "/nonexistent.toml"),
        (&["adopt", "--from", "redis://h", "--yes"], "no servers"),
    ];
    for (args, words) in settings {
        run("", args).is(78, &["redlock: ", words]);
    }
    run("redis://127.0.0.1:1", &["adopt", "--from", ","]).is(78, &["--from: it names no server"]);
}

#[test]
fn senseless_settings_are_refused() {
    let nodes = ["redis://127.0.0.1:1"];
    Doctor::configured(&nodes, "ttl_ms = 5").run(&[]).is(78, &["unknown setting `ttl_ms`"]);
    let range = "retry_delay = { min = '1ms' }";
    Doctor::configured(&nodes, range).run(&[]).is(78, &["missing field `max`"]);
    Doctor::configured(&nodes, "ttl = '1ms'").run(&[]).is(78, &["ttl"]);
    Doctor::configured(&nodes, "ttl = ").run(&[]).is(78, &["line 1: not valid TOML"]);
    run("http://h", &["doctor"]).is(78, &["begins with none of redis://"]);
    run("redis://h:1,redis://h:1", &["doctor"]).is(78, &["configured twice"]);
}

#[test]
fn passwords_are_never_shown() {
    let secret = "s3cret";
    // A line that is not TOML, and a value of the wrong type.
    for text in ["password = s3cret", "max_attempts = 's3cret'"] {
        Doctor::configured(&["redis://h"], text).run(&[]).is(78, &[]).never_says(secret);
    }
    run(&format!("redis://:{secret}@h:x"), &["doctor"]).is(78, &[]).never_says(secret);
    let url = format!("redis://:{secret}@h");
    let misplaced: [&[&str]; 7] = [
        &[&url],
        &["doctor", &url],
        &["inspect", "x", &url],
        &["doctor", "--ttl", &url],
        &["doctor", &format!("--ttl={url}")],
        &["doctor", "--restart-guard", &url],
        &["adopt", "--from", "redis://h", "--timeout", &url],
    ];
    for args in misplaced {
        run("", args).is(64, &["error: "]).never_says(secret);
    }
    let from = format!("redis://:{secret}@127.0.0.1:1");
    run("redis://127.0.0.1:2", &["adopt", "--from", &from]).is(64, &[]).never_says(secret);
}
