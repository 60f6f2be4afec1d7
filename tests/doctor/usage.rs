//! Bad usage, and secrets that are never shown.

use crate::run::{Doctor, run};

#[test]
fn help_lists_exit_codes() {
    let outcome = run("", &["--help"]);
    outcome.is(0, &["usage: doctor", "exit code: 0  healthy", "REDLOCK_NODES", "--adopt"]);
}

#[test]
fn bad_usage_has_its_exit_code() {
    let cases: &[(&[&str], &str)] = &[
        (&["--bogus"], "unknown argument --bogus"),
        (&["--ttl", "10"], "--ttl: 10 is no time like 10s"),
        (&["--ttl"], "--ttl needs a value"),
        (&["--wait=some"], "no node has that name"),
        (&["--restart-guard", "on"], "probation or off"),
        (&["--adopt"], "--adopt needs --from"),
        (&["--from", "redis://h"], "belong to --adopt"),
        (&["--resource", "a", "--break", "a"], "one task at a time"),
        (&["--yes"], "--yes belongs to"),
        (&["--timeout", "5s"], "--timeout belongs to"),
        (&["--resource", ""], "invalid resource"),
        (&["--config", "/nonexistent.toml"], "/nonexistent.toml"),
        (&["--adopt", "--from", "redis://h", "--yes"], "--adopt needs servers"),
    ];
    for (args, words) in cases {
        run("", args).is(3, &["doctor: ", words]);
    }
}

#[test]
fn senseless_settings_are_refused() {
    let nodes = ["redis://127.0.0.1:1"];
    Doctor::configured(&nodes, "ttl_ms = 5").run(&[]).is(3, &["unknown field `ttl_ms`"]);
    Doctor::configured(&nodes, "ttl = '1ms'").run(&[]).is(3, &["ttl"]);
    Doctor::configured(&nodes, "ttl = ").run(&[]).is(3, &["line 1: not valid TOML"]);
    run("http://h", &[]).is(3, &["begins with none of redis://"]);
    run("redis://h:1,redis://h:1", &[]).is(3, &["configured twice"]);
}

#[test]
fn passwords_are_never_shown() {
    let secret = "s3cret";
    let nodes = [format!("redis://app:{secret}@127.0.0.1:1")];
    let settings = [
        format!("password = '{secret}'"),
        format!("password = {secret}"),
        format!("password = ['{secret}']"),
        format!("max_attempts = '{secret}'"),
        format!("nodes = ['redis://:{secret}@127.0.0.1:1', 5]"),
        format!("nodes = ['redis://:{secret}@h:port']"),
        format!("tls = '{secret}'"),
    ];
    for text in &settings {
        Doctor::configured(&nodes, text).run(&[]).never_says(secret);
        Doctor::configured(&nodes, text).run(&["--json"]).never_says(secret);
    }
    run(&format!("redis://:{secret}@h:x"), &[]).is(3, &[]).never_says(secret);
    run("", &[&format!("redis://:{secret}@h")]).is(3, &[]).never_says(secret);
    run("", &["--ttl", &format!("redis://:{secret}@h")]).is(3, &[]).never_says(secret);
    let from = format!("redis://:{secret}@127.0.0.1:1");
    run("redis://127.0.0.1:2", &["--adopt", "--from", &from]).is(3, &[]).never_says(secret);
}
