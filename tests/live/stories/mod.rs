//! Whole services under faults: replicas that are killed, holders that are frozen, events that are
//! delivered again and forged; checks of what the clients see.
//!
//! Each story runs over nodes inside this process and over real servers, where its members are
//! processes of their own. The examples are run as their users run them.

mod accounts;
mod examples;
mod fencing;
mod leader;
mod member;
mod nodes;
mod orders;
mod overlap;
mod scheduler;
mod webhooks;

use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Stories that judge times run beside each other, but not beside those that keep the machine busy.
static MACHINE: RwLock<()> = RwLock::const_new(());

async fn quiet_machine() -> RwLockReadGuard<'static, ()> {
    MACHINE.read().await
}

async fn busy_machine() -> RwLockWriteGuard<'static, ()> {
    MACHINE.write().await
}

/// Prints each check with what was counted; panics if one of them failed.
#[track_caller]
fn judge(checks: &[(bool, String)]) {
    for (holds, what) in checks {
        println!("{} {what}", if *holds { "ok    " } else { "FAILED" });
    }
    let failed: Vec<_> = checks.iter().filter(|(holds, _)| !holds).map(|(_, what)| what).collect();
    assert!(failed.is_empty(), "{failed:#?}");
}
