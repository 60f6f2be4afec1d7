//! Whole services under faults: replicas that are killed, holders that are frozen, events that are
//! delivered again and forged; checks of what the clients see.
//!
//! Each story runs over real servers, and its members are processes of their own. The examples are
//! run as their users run them.

mod examples;
mod fencing;
mod member;
mod nodes;
mod webhooks;

use tokio::sync::Mutex;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A story that judges times does not run beside one that keeps the machine busy.
static MACHINE: Mutex<()> = Mutex::const_new(());

/// Prints each check with what was counted; panics if one of them failed.
#[track_caller]
fn judge(checks: &[(bool, String)]) {
    for (holds, what) in checks {
        println!("{} {what}", if *holds { "ok    " } else { "FAILED" });
    }
    let failed: Vec<_> = checks.iter().filter(|(holds, _)| !holds).map(|(_, what)| what).collect();
    assert!(failed.is_empty(), "{failed:#?}");
}
