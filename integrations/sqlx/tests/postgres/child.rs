//! Processes of a test: this test binary, run again for one test.

use std::{
    env,
    io::{BufRead, BufReader, Lines, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

const VARIABLE: &str = "TOWER_REDLOCK_SQLX_CHILD";

/// What begins a line for the parent process.
const MARK: &str = "child: ";

/// Returns the argument that the parent process passed; `None` in an ordinary run of the tests.
pub(crate) fn orders() -> Option<String> {
    env::var(VARIABLE).ok()
}

/// Tells the parent process a line.
pub(crate) fn say(line: &str) {
    // With one thread, the harness has begun a line.
    println!("\n{MARK}{line}");
}

/// Waits for a line of the parent process, and blocks the thread.
pub(crate) fn await_parent() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    assert_eq!(line, "go\n");
}

/// A process that runs one test. It is killed when it is dropped.
pub(crate) struct TestProcess {
    child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl TestProcess {
    /// Runs the test `name`, as in `stopped::holder`.
    pub(crate) fn start(name: &str, orders: &str) -> Self {
        let mut child = Command::new(env::current_exe().expect("the binary knows its path"))
            .args([name, "--exact", "--nocapture"])
            .env(VARIABLE, orders)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary starts again");
        let input = child.stdin.take().expect("it is piped");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        Self { child, input, lines }
    }

    /// Returns the next line that the process [says](say).
    pub(crate) fn hear(&mut self) -> String {
        let marked =
            |line: std::io::Result<String>| line.unwrap().strip_prefix(MARK).map(str::to_owned);
        self.lines.by_ref().find_map(marked).expect("the process says something before its end")
    }

    pub(crate) fn go(&mut self) {
        self.input.write_all(b"go\n").unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("our child");
    }
}

impl Drop for TestProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
