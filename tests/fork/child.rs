//! Runs work in a forked child.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};
use std::{process, thread};

use fork::{Fork, fork, waitpid_nohang};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::HANG_GUARD;

/// Runs `work` in a fork of this process. Panics if it panics there, or does not end.
#[track_caller]
pub(crate) fn in_child(work: impl FnOnce()) {
    let child = match fork().expect("the process forks") {
        Fork::Parent(child) => child,
        Fork::Child => {
            let ended = catch_unwind(AssertUnwindSafe(work));
            // Drops nothing of the parent, such as its servers.
            process::exit(i32::from(ended.is_err()));
        }
    };
    let begun = Instant::now();
    let status = loop {
        match waitpid_nohang(child).expect("it is our child") {
            Some(status) => break status,
            None if begun.elapsed() > HANG_GUARD => {
                let pid = Pid::from_raw(child).expect("a process id");
                let _ = kill_process(pid, Signal::KILL);
                panic!("the child hangs");
            }
            None => thread::sleep(Duration::from_millis(1)),
        }
    };
    assert_eq!(status, 0, "the child failed");
}
