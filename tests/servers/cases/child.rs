//! Processes of our own: this test binary, run again for one test.
//!
//! A test that is meant for it asks for its orders with [`orders`] and returns at once when it has
//! none, as in an ordinary run of all tests.

use std::{
    env,
    process::{Child, Command, Output, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

const VARIABLE: &str = "TOWER_REDLOCK_CHILD";

/// What the parent wants of this process; `None` in an ordinary run.
pub(crate) fn orders() -> Option<String> {
    env::var(VARIABLE).ok()
}

/// What runs the test `name` of the module `module_path!()` in a process of its own.
pub(crate) fn command(module: &str, name: &str, orders: &str) -> Vec<String> {
    let binary = env::current_exe().expect("the binary knows its path");
    let binary = binary.to_str().expect("a UTF-8 name").to_owned();
    let orders = format!("{VARIABLE}={orders}");
    vec!["env".into(), orders, binary, path(module, name), "--exact".into(), "--nocapture".into()]
}

fn path(module: &str, name: &str) -> String {
    let (_, module) = module.split_once("::").expect("a path below the binary's root");
    format!("{module}::{name}")
}

/// A process that runs one test; killed when it is dropped unfinished.
pub(crate) struct Kin(Option<Child>);

impl Kin {
    /// Runs the test `name` of the module `module_path!()`.
    pub(crate) fn start(module: &str, name: &str, orders: &str) -> Self {
        let child = Command::new(env::current_exe().expect("the binary knows its path"))
            .args([&path(module, name), "--exact", "--nocapture"])
            .env(VARIABLE, orders)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts again");
        Self(Some(child))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.as_ref().expect("it is not finished").id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let child = self.0.as_ref().expect("it is not finished");
        kill_process(Pid::from_child(child), signal).expect("our child");
    }

    /// Waits for the end, whatever it is.
    pub(crate) fn output(mut self) -> Output {
        let child = self.0.take().expect("it is finished once");
        child.wait_with_output().expect("our child")
    }

    /// Waits for the end; panics with all that was printed where the test failed, or did not run.
    pub(crate) fn finish(self) {
        let Output { status, stdout, stderr } = self.output();
        let stdout = String::from_utf8_lossy(&stdout);
        let stderr = String::from_utf8_lossy(&stderr);
        assert!(status.success(), "{status}\n{stdout}\n{stderr}");
        assert!(stdout.contains("1 passed"), "the test was not found:\n{stdout}");
    }
}

impl Drop for Kin {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
