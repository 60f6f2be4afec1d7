//! Runs work in a forked child.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};
use std::{process, thread};

use fork::{Fork, WIFSIGNALED, WTERMSIG, fork, waitpid_nohang};
use rustix::process::{Pid, Signal, getpid, kill_process};

use crate::support::HANG_GUARD;

const SUCCEEDED: Signal = Signal::USR1;
const FAILED: Signal = Signal::USR2;

/// Runs `work` in a fork of this process. Panics if it panics there, or does not end.
#[track_caller]
pub(crate) fn in_child(work: impl FnOnce()) {
    let child = match fork().expect("the process forks") {
        Fork::Parent(child) => child,
        Fork::Child => {
            let ended = catch_unwind(AssertUnwindSafe(work));
            end(if ended.is_ok() { SUCCEEDED } else { FAILED });
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
    let signal = WIFSIGNALED(status).then(|| WTERMSIG(status));
    assert_eq!(signal, Some(SUCCEEDED.as_raw()), "the child failed: status {status:#x}");
}

/// Ends the child by a signal, so that it drops nothing of the parent, such as its servers. The handlers
/// that [`process::exit`] runs take mutexes of std, which a thread of the parent may hold at the fork.
fn end(by: Signal) -> ! {
    kill_process(getpid(), by).expect("a process may end itself");
    process::abort();
}
