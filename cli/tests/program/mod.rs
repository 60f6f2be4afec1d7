//! Running the program.
#![allow(dead_code, reason = "two test programs share this module")]

use std::{
    io::Read,
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use tower_redlock::{Redlock, node::redis::RestartGuard};

use crate::support::{RedisServer, TempDir};
pub(crate) use crate::support::{connected, urls};

/// Far longer than the sum of the command's own limits.
pub(crate) const HANG_GUARD: Duration = Duration::from_secs(60);

/// Long enough that nothing expires and no server is slow on a busy machine.
const TTL: &str = "60s";
const NODE_TIMEOUT: &str = "3s";

/// Options with settings under which nothing expires and new servers vote at once.
pub(crate) const PATIENT: [&str; 2] =
    ["--config", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program/patient.toml")];

/// The output and exit code of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Outcome {
    /// Asserts the exit code and parts of the output.
    #[track_caller]
    pub(crate) fn is(&self, code: i32, words: &[&str]) -> &Self {
        assert_eq!(self.code, code, "{self:#?}");
        self.says(words)
    }

    #[track_caller]
    pub(crate) fn says(&self, words: &[&str]) -> &Self {
        for word in words {
            let said = self.stdout.contains(word) || self.stderr.contains(word);
            assert!(said, "{word:?} is missing: {self:#?}");
        }
        self
    }

    #[track_caller]
    pub(crate) fn never_says(&self, word: &str) -> &Self {
        let said = self.stdout.contains(word) || self.stderr.contains(word);
        assert!(!said, "{word:?} is said: {self:#?}");
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}

/// A configuration of the command.
pub(crate) struct Doctor {
    nodes: String,
    config: PathBuf,
    _directory: TempDir,
}

impl Doctor {
    /// Over these nodes, with settings under which nothing expires and new servers vote at once.
    pub(crate) fn over<S: AsRef<str>>(urls: &[S]) -> Self {
        let settings =
            format!("ttl = '{TTL}'\nnode_timeout = '{NODE_TIMEOUT}'\nrestart_guard = 'off'");
        Self::configured(urls, &settings)
    }

    /// The same with the restart guard: new servers begin a probation of that length.
    pub(crate) fn guarded<S: AsRef<str>>(urls: &[S], ttl: &str) -> Self {
        Self::configured(urls, &format!("ttl = '{ttl}'"))
    }

    pub(crate) fn configured<S: AsRef<str>>(urls: &[S], settings: &str) -> Self {
        let directory = TempDir::new();
        let config = directory.path().join("config.toml");
        std::fs::write(&config, settings).expect("the directory is writable");
        let urls: Vec<&str> = urls.iter().map(AsRef::as_ref).collect();
        Self { nodes: urls.join(","), config, _directory: directory }
    }

    /// Runs `doctor` with these arguments to its end.
    #[track_caller]
    pub(crate) fn run(&self, args: &[&str]) -> Outcome {
        self.command(&[&["doctor"], args].concat())
    }

    /// Runs a command with its arguments to its end.
    #[track_caller]
    pub(crate) fn command(&self, args: &[&str]) -> Outcome {
        let config = self.config.to_str().expect("UTF-8");
        run(&self.nodes, &[&["--config", config], args].concat())
    }
}

/// Runs the program without a terminal, as scripts do.
#[track_caller]
pub(crate) fn run(nodes: &str, args: &[&str]) -> Outcome {
    run_with(nodes, args, &[])
}

/// The same with further variables of the environment.
#[track_caller]
pub(crate) fn run_with(nodes: &str, args: &[&str], variables: &[(&str, &str)]) -> Outcome {
    let mut child = Command::new(env!("CARGO_BIN_EXE_redlock"))
        .args(args)
        .env("REDLOCK_NODES", nodes)
        .env_remove("REDLOCK_CONFIG")
        .env_remove("REDLOCK_PREFIX")
        .env_remove("REDLOCK_SERVE_PASSWORD")
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("redlock starts");
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let stdout = thread::spawn(move || text(out));
    let stderr = thread::spawn(move || text(err));
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("it is our child") {
            break status;
        }
        if begun.elapsed() > HANG_GUARD {
            let _ = child.kill();
            let _ = child.wait();
            panic!("redlock {args:?} hangs: {:?} {:?}", stdout.join(), stderr.join());
        }
        thread::sleep(Duration::from_millis(5));
    };
    Outcome {
        code: status.code().expect("it ends by itself"),
        stdout: stdout.join().expect("text"),
        stderr: stderr.join().expect("text"),
    }
}

fn text(stream: Option<impl Read>) -> String {
    let mut text = String::new();
    stream.expect("it is piped").read_to_string(&mut text).expect("UTF-8");
    text
}

/// A node's name as a server has it by default.
pub(crate) fn name(server: &RedisServer) -> String {
    format!("{}/0", server.addr())
}

/// A manager with the settings of [`Doctor::over`], and all of its nodes voting.
pub(crate) async fn fleet(servers: &[RedisServer]) -> Redlock {
    connected(
        Redlock::builder()
            .nodes(urls(servers))
            .ttl(Duration::from_secs(60))
            .node_timeout(Duration::from_secs(3))
            .restart_guard(RestartGuard::Off)
            .owner("night-shift"),
    )
    .await
}

/// Starts three servers and such a manager over them.
pub(crate) async fn with_fleet() -> (Vec<RedisServer>, Redlock) {
    let servers = RedisServer::start_n(3);
    let fleet = fleet(&servers).await;
    (servers, fleet)
}

/// Starts servers and configures the command for them as [`Doctor::over`] does.
pub(crate) fn with_doctor(count: usize) -> (Vec<RedisServer>, Doctor) {
    let servers = RedisServer::start_n(count);
    let doctor = Doctor::over(&urls(&servers));
    (servers, doctor)
}
