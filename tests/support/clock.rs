//! Servers whose wall clock the test sets, by libfaketime.

use std::path::{Path, PathBuf};
use std::{env, fs};

use rustix::process::Pid;

use super::home::Home;
use super::server::RedisServer;

const IS_MAC: bool = cfg!(target_os = "macos");

impl RedisServer {
    /// Starts a server whose wall clock can be set; further arguments as for
    /// [`with`](Self::with).
    pub fn with_clock(args: &[&str]) -> Self {
        let home = Home::new();
        let clock = Clock::new(&home);
        Self::start_at(home, Some(clock), args)
    }

    /// Lets the server's wall clock differ from the system's by so many seconds, from the next
    /// command on. A restarted server has the same clock. Its monotonic clock is left alone.
    #[track_caller]
    pub fn set_clock_offset(&self, seconds: f64) {
        self.clock.as_ref().expect("a server that was started with a clock").set(seconds);
    }
}

#[derive(Debug)]
pub struct Clock {
    file: PathBuf,
}

impl Clock {
    fn new(home: &Home) -> Self {
        let clock = Self { file: home.file("clock") };
        clock.set(0.0);
        clock
    }

    fn set(&self, seconds: f64) {
        self.write(&format!("{seconds:+.6}"));
    }

    /// To be called when a server is up: until then its clock may be late. The library starts twice,
    /// and where it has no memory for itself (see [`remove_shared_memory`]) it adds the offset to
    /// the time of its first start, and what has passed since its second. Another spelling of the
    /// same offset is added to the latter.
    pub fn settle(&self, server: Pid) {
        let offset = fs::read_to_string(&self.file).expect("the directory is ours");
        self.write(&format!("{offset}0"));
        remove_shared_memory(server);
    }

    /// Renamed into place: the server reads the file whenever it looks at the clock.
    fn write(&self, offset: &str) {
        let new = self.file.with_extension("new");
        fs::write(&new, offset).expect("the directory is ours");
        fs::rename(&new, &self.file).expect("the directory is ours");
    }

    /// What goes before a program and its arguments. By `env`, so that the shell that watches the
    /// program keeps the system's clock.
    pub fn prefix(&self) -> Vec<String> {
        let preload = if IS_MAC { "DYLD_INSERT_LIBRARIES" } else { "LD_PRELOAD" };
        let file = self.file.to_str().expect("the temporary directory's name is UTF-8");
        vec![
            "env".into(),
            format!("{preload}={}", libraries()),
            format!("FAKETIME_TIMESTAMP_FILE={file}"),
            "FAKETIME_NO_CACHE=1".into(),
            "FAKETIME_DONT_FAKE_MONOTONIC=1".into(),
            "FAKETIME_DISABLE_SHM=1".into(),
        ]
    }
}

/// Versions that don't know `FAKETIME_DISABLE_SHM` name two objects after the process. A killed one
/// leaves them behind, and a later one of the same id goes without. Once it is up, a process needs
/// the names no more.
fn remove_shared_memory(pid: Pid) {
    let pid = pid.as_raw_pid();
    for name in [format!("faketime_shm_{pid}"), format!("sem.faketime_sem_{pid}")] {
        let _ = fs::remove_file(Path::new("/dev/shm").join(name));
    }
}

/// What is to be preloaded. The C library comes second: where jemalloc comes before it, the two
/// call each other without end while they start.
fn libraries() -> String {
    if IS_MAC {
        return find("faketime/libfaketime.1.dylib");
    }
    format!("{}:{}", find("faketime/libfaketimeMT.so.1"), find("libc.so.6"))
}

fn find(name: &str) -> String {
    let debian = format!("/usr/lib/{}-linux-gnu", env::consts::ARCH);
    let places = [&debian, "/usr/lib64", "/usr/lib", "/lib64", "/lib", "/opt/homebrew/lib"];
    let files = places.into_iter().chain(["/usr/local/lib"]).map(|dir| Path::new(dir).join(name));
    let found = files.into_iter().find(|file| file.exists()).unwrap_or_else(|| {
        panic!(
            "{name} was not found: run scripts/test, or install it: \
             apt install libfaketime | dnf install libfaketime | brew install libfaketime"
        )
    });
    found.to_str().expect("a UTF-8 name").to_owned()
}
