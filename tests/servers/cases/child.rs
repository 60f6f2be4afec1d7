//! Child processes: this test binary, run again for one test.
//!
//! A test for such a process reads its argument with [`orders`]. In an ordinary run of all tests
//! there is none, and it returns at once.

use std::{
    env,
    process::{Child, Command, Output, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

const VARIABLE: &str = "TOWER_REDLOCK_CHILD";

/// Returns the argument that the parent process passed; `None` in an ordinary run.
pub(crate) fn orders() -> Option<String> {
    env::var(VARIABLE).ok()
}

/// The command that runs the test `name` of the module `module_path!()` in a child process.
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
pub(crate) struct TestProcess(Option<Child>);

impl TestProcess {
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

    /// Waits for the end of the process, and returns its output.
    pub(crate) fn output(mut self) -> Output {
        let child = self.0.take().expect("it is finished once");
        child.wait_with_output().expect("our child")
    }

    /// Waits for the end; panics with the output if the test failed or did not run.
    pub(crate) fn finish(self) {
        let Output { status, stdout, stderr } = self.output();
        let stdout = String::from_utf8_lossy(&stdout);
        let stderr = String::from_utf8_lossy(&stderr);
        assert!(status.success(), "{status}\n{stdout}\n{stderr}");
        assert!(stdout.contains("1 passed"), "the test was not found:\n{stdout}");
    }
}

impl Drop for TestProcess {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
