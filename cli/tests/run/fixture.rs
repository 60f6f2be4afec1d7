//! Servers, a directory for commands, and `redlock run` over them.

use std::{
    fs::{self, File},
    io::Read,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{RedisServer, TempDir, eventually, urls};

pub(crate) const REDLOCK: &str = env!("CARGO_BIN_EXE_redlock");

/// Far longer than the sum of the program's own limits.
pub(crate) const HANG_GUARD: Duration = Duration::from_secs(60);

/// Servers, and a directory that commands write to.
pub(crate) struct Fixture {
    pub(crate) servers: Vec<RedisServer>,
    directory: TempDir,
    config: PathBuf,
}

impl Fixture {
    /// Three servers that vote at once, with locks that nothing ends but a loss.
    pub(crate) fn new() -> Self {
        Self::with_ttl("60s")
    }

    pub(crate) fn with_ttl(ttl: &str) -> Self {
        let servers = RedisServer::start_n(3);
        let directory = TempDir::new();
        let config = directory.path().join("config.toml");
        let settings = format!("ttl = '{ttl}'\nnode_timeout = '500ms'\nrestart_guard = 'off'\n");
        fs::write(&config, settings).unwrap();
        Self { servers, directory, config }
    }

    /// Returns a file in the directory of the commands.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    /// Waits until a file has a line, and returns the first.
    #[track_caller]
    pub(crate) fn line_of(&self, name: &str) -> String {
        eventually("a line is written", || self.read(name).contains('\n'));
        self.read(name).lines().next().unwrap_or_default().to_owned()
    }

    /// Starts `redlock run` with these arguments; the command is executed in the directory.
    pub(crate) fn start(&self, args: &[&str]) -> Running {
        self.start_command(self.command(args))
    }

    pub(crate) fn start_command(&self, command: Command) -> Running {
        self.spawn(command, Stdio::null())
    }

    /// The same, with a pipe as its standard input.
    pub(crate) fn start_with_stdin(&self, args: &[&str]) -> (Running, ChildStdin) {
        let mut run = self.spawn(self.command(args), Stdio::piped());
        let stdin = run.child.stdin.take().unwrap();
        (run, stdin)
    }

    fn spawn(&self, mut command: Command, stdin: Stdio) -> Running {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let output = self.file(&format!("output-{number}"));
        let file = File::create(&output).unwrap();
        command.stdout(file.try_clone().unwrap()).stderr(file).stdin(stdin);
        Running { child: command.spawn().unwrap(), output }
    }

    /// Starts `redlock run` of `true` over other servers under the lock `a`.
    pub(crate) fn start_over(&self, nodes: &str, task: &[&str]) -> Running {
        let mut command = self.command(&[task, &["--", "true"]].concat());
        command.env("REDLOCK_NODES", nodes);
        self.start_command(command)
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.redlock(&[&["run"], args].concat())
    }

    /// Returns the program with these arguments, executed in the directory.
    pub(crate) fn redlock(&self, args: &[&str]) -> Command {
        // The process that runs the tests may ignore signals.
        let mut command = Command::new("env");
        command
            .args(["--default-signal", REDLOCK])
            // Where a member of a group is suspended, the kernel may hang up all of it.
            .process_group(0)
            .env("REDLOCK_NODES", urls(&self.servers).join(","))
            .env("REDLOCK_CONFIG", &self.config)
            .current_dir(self.directory.path())
            .args(args);
        command
    }

    /// Starts a shell script under the lock `a`.
    pub(crate) fn script(&self, options: &[&str], script: &str) -> Running {
        let mut args = options.to_vec();
        args.extend(["a", "--", "sh", "-c", script]);
        self.start(&args)
    }

    pub(crate) fn freeze(&self) {
        self.servers.iter().skip(1).for_each(RedisServer::freeze);
    }

    pub(crate) fn thaw(&self) {
        self.servers.iter().skip(1).for_each(RedisServer::thaw);
    }

    /// Returns how many servers keep the lock of a name.
    pub(crate) fn held_on(&self, name: &str) -> usize {
        let key = format!("redlock:lock:{name}");
        self.servers.iter().filter(|server| server.exists(&key)).count()
    }
}

/// A started program. Killed on drop.
pub(crate) struct Running {
    child: Child,
    output: PathBuf,
}

impl Running {
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    #[track_caller]
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < HANG_GUARD, "still runs: {}", self.output());
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[track_caller]
    pub(crate) fn code(&mut self) -> i32 {
        let status = self.wait();
        status.code().unwrap_or_else(|| panic!("{status}: {}", self.output()))
    }

    /// Sends SIGTERM, and asserts that the command ends by it.
    #[track_caller]
    pub(crate) fn terminate(mut self) {
        self.signal(Signal::TERM);
        assert_eq!(self.code(), 128 + 15, "{}", self.output());
    }

    /// Waits until the output has these words.
    #[track_caller]
    pub(crate) fn wait_says(&self, words: &str) {
        eventually(words, || self.output().contains(words));
    }

    /// Asserts the exit code and a part of the output.
    #[track_caller]
    pub(crate) fn ends(&mut self, code: i32, part: &str) {
        let ended = self.code();
        let output = self.output();
        assert!(ended == code && output.contains(part), "{ended}: {output}");
    }

    pub(crate) fn output(&self) -> String {
        let mut text = String::new();
        File::open(&self.output).unwrap().read_to_string(&mut text).unwrap();
        text
    }
}

/// Returns a script that runs a script by `redlock run` with these options, under the lock `a`.
pub(crate) fn nested(options: &str, script: &str) -> String {
    format!("{REDLOCK} run {options} a -- sh -c '{script}'")
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a process runs; a process that has ended and was not reaped does not.
pub(crate) fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with(['Z', 'X']))
}

#[track_caller]
pub(crate) fn is_gone(pid: &str) {
    eventually("the process has ended", || !is_alive(pid));
}
