//! A chromedriver process, which ends together with all browsers that it has started.

use std::{
    fs::{self, File},
    io::Read,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use super::HANG_GUARD;
use crate::support::TempDir;

/// The shell leads a process group, in which Chromium's processes stay. Its standard input is a pipe whose
/// only writer is the test process: it ends when the handle is dropped, or when the test process ends,
/// however it does. The shell then kills the group, itself included.
const WATCH: &str = r#"
log=$1; shift
exec 3<&0 </dev/null
("$@"; echo "ended with $?") >"$log" 2>&1 3<&- &
read -r _ <&3
kill -9 0
"#;

const ATTEMPTS: usize = 3;
const PAUSE: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub(super) struct Driver {
    shell: Mutex<Child>,
    port: u16,
    /// Holds the profile, and all else that Chromium writes.
    home: TempDir,
}

impl Driver {
    /// Starts chromedriver and waits until it listens. It chooses a port of IPv4, and ends if another program has
    /// the one of IPv6 with the same number.
    pub(super) fn start() -> Self {
        let started = Instant::now();
        let mut said = String::new();
        for _ in 0..ATTEMPTS {
            match Self::attempt() {
                Ok(driver) => return driver,
                Err(log) => said = log,
            }
        }
        panic!(
            "chromedriver does not listen after {:.1?}: run scripts/test setup, or install it: apt-get install \
             chromium chromium-driver | dnf install chromium chromedriver | brew install --cask chromium \
             chromedriver\n{said}",
            started.elapsed()
        )
    }

    /// Returns what chromedriver said if it ended, or hangs.
    fn attempt() -> Result<Self, String> {
        let home = TempDir::new();
        let log = home.path().join("chromedriver.log");
        File::create(&log).expect("the directory is ours");
        let mut command = Command::new("sh");
        for variable in ["HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"] {
            command.env(variable, home.path());
        }
        let mut shell = command
            .args(["-c", WATCH, "sh"])
            .arg(&log)
            .args(["chromedriver", "--port=0"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("sh starts");
        match listening(&log) {
            Ok(port) => Ok(Self { shell: Mutex::new(shell), port, home }),
            Err(said) => {
                end(&mut shell);
                Err(said)
            }
        }
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(super) fn home(&self) -> &Path {
        self.home.path()
    }
}

/// Returns the port that the log names, or else the log.
fn listening(log: &Path) -> Result<u16, String> {
    let started = Instant::now();
    loop {
        let mut said = String::new();
        File::open(log)
            .and_then(|mut file| file.read_to_string(&mut said))
            .expect("the log is text");
        let port = said.split_once("started successfully on port ").and_then(|(_, rest)| {
            let (port, _) = rest.split_once('.')?;
            port.parse().ok()
        });
        match port {
            Some(port) => return Ok(port),
            None if said.contains("ended with ") || started.elapsed() > HANG_GUARD => {
                return Err(said);
            }
            None => thread::sleep(PAUSE),
        }
    }
}

/// Ends the shell by the end of its input.
fn end(shell: &mut Child) {
    drop(shell.stdin.take());
    let _ = shell.wait();
}

impl Drop for Driver {
    /// Returns when the browsers' files are gone. Killed processes may still write for a moment.
    fn drop(&mut self) {
        end(&mut self.shell.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        let started = Instant::now();
        while fs::remove_dir_all(self.home.path()).is_err() && self.home.path().exists() {
            if started.elapsed() > HANG_GUARD {
                return;
            }
            thread::sleep(PAUSE);
        }
    }
}
