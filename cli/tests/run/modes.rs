//! Work that is done once, and leaders.

use crate::{program::Site, support::eventually};

#[test]
fn success_is_not_repeated() {
    let site = Site::new();
    let once = |script: &str| site.start(&["--once", "job 17", "--", "sh", "-c", script]);
    once("echo ran >> log; exit 3").ends(3, "");
    once("echo ran >> log").ends(0, "");
    once("echo ran >> log").ends(0, "sh was not run: redlock@");
    assert_eq!(site.read("log"), "ran\nran\n");
}

#[test]
fn work_in_progress_is_75() {
    let site = Site::new();
    let mut first = site.start(&["--once", "k", "--", "sh", "-c", "echo $$ > begun; sleep 60"]);
    site.line_of("begun");
    site.start(&["--once", "k", "-n", "--", "true"]).ends(75, "does it now");
    first.signal(rustix::process::Signal::TERM);
    assert_eq!(first.code(), 143);
    site.start(&["--once", "k", "--", "true"]).ends(0, "");
}

#[test]
fn leader_leaves_to_next() {
    let site = Site::new();
    let script = "echo $$ > $0; while :; do sleep 0.01; done";
    let mut first = site.start(&["--leader", "l", "--", "sh", "-c", script, "first"]);
    site.line_of("first");
    let mut second = site.start(&["--leader", "l", "--", "sh", "-c", script, "second"]);
    site.start(&["--leader", "l", "-n", "--", "true"]).ends(75, "held by redlock@");
    assert_eq!(site.read("second"), "");
    first.signal(rustix::process::Signal::TERM);
    assert_eq!(first.code(), 143);
    site.line_of("second");
    second.signal(rustix::process::Signal::TERM);
    assert_eq!(second.code(), 143);
    eventually("nothing is held", || {
        site.servers.iter().all(|server| server.keys("*:lock:*").is_empty())
    });
}
