//! A child process that is killed when its handle is dropped, and also when the test process is
//! killed.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// The shell's standard input is a pipe whose only writer is the test process: it ends when that
/// process ends for any reason. The shell ends when the program has ended for any reason.
///
/// The signals are ignored because a process group that loses its parent while a member is stopped
/// gets a hang-up, which would end the shell before it could end a frozen server.
const WATCH: &str = r#"
trap '' HUP INT TERM
log=$1; shift
exec 3<&0 </dev/null
"$@" >"$log" 2>&1 3<&- &
program=$!
(read -r _ <&3; kill -9 "$program") >/dev/null &
watcher=$!
exec 3<&-
echo "$program"
wait "$program"
kill -9 "$watcher"
wait "$watcher"
"#;

#[derive(Debug)]
pub struct Process {
    shell: Child,
    pid: Pid,
}

impl Process {
    /// Starts a program with its arguments, its output going to the file `log`.
    pub fn spawn(command: &[String], log: &Path) -> Self {
        let mut shell = Command::new("sh")
            .args(["-c", WATCH, "sh"])
            .arg(log)
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // The shell must stay alive to clean up, even if a signal to the process group ends the
            // test process.
            .process_group(0)
            .spawn()
            .expect("sh starts");
        let mut line = String::new();
        let stdout = shell.stdout.take().expect("stdout is piped");
        BufReader::new(stdout).read_line(&mut line).expect("sh prints the process id");
        let pid = line.trim().parse().ok().and_then(Pid::from_raw);
        let pid = pid.unwrap_or_else(|| panic!("sh printed {line:?} for a process id"));
        Self { shell, pid }
    }

    pub fn pid(&self) -> Pid {
        self.pid
    }

    pub fn has_ended(&mut self) -> bool {
        self.shell.try_wait().expect("the shell is our child").is_some()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).unwrap_or_else(|error| {
            panic!("signal {signal:?} to process {}: {error}", self.pid.as_raw_pid())
        });
    }
}

impl Drop for Process {
    /// Returns when the program is gone. SIGKILL also ends a stopped process.
    fn drop(&mut self) {
        if !self.has_ended() {
            let _ = kill_process(self.pid, Signal::KILL);
        }
        let _ = self.shell.wait();
    }
}
