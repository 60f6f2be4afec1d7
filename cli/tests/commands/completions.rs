//! `completions` and `man`, which need no servers.

use crate::{program::run, support::TempDir};

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let outcome = run("", &["completions", shell]);
        outcome
            .is(0, &["redlock", "lower-max-ttl", "once", "serve", "completions", "restart-guard"]);
    }
    run("", &["completions", "tcsh"]).is(64, &["possible values: bash"]);
}

#[test]
fn man_prints_the_page() {
    let outcome = run("", &["man"]);
    outcome.is(0, &[".TH redlock 1", "SYNOPSIS", "REDLOCK_NODES", "Exit codes"]);
}

#[test]
fn man_writes_a_page_per_command() {
    let dir = TempDir::new();
    let path = dir.path().to_str().unwrap();
    assert_eq!(run("", &["man", "--dir", path]).is(0, &[]).stdout, "");
    let mut pages: Vec<_> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    pages.sort();
    for page in [
        "redlock.1",
        "redlock-ls.1",
        "redlock-lower-max-ttl.1",
        "redlock-once-forget.1",
        "redlock-serve.1",
    ] {
        assert!(pages.iter().any(|written| written == page), "{pages:?}");
    }
    let page = std::fs::read_to_string(dir.path().join("redlock-doctor.1")).unwrap();
    assert!(page.contains("Exit codes") && page.contains("degraded"), "{page}");
    run("", &["man", "--dir", &format!("{path}/none")]).is(71, &["/none: "]);
}
