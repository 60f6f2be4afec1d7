//! A wall clock for a server, which libfaketime sets.

use std::path::{Path, PathBuf};
use std::{env, fs};

use rustix::process::Pid;

const IS_MAC: bool = cfg!(target_os = "macos");

#[derive(Debug)]
pub struct Clock {
    file: PathBuf,
}

impl Clock {
    /// Creates a clock whose offset is stored in the file.
    pub fn new(file: PathBuf) -> Self {
        let clock = Self { file };
        clock.set(0.0);
        clock
    }

    /// Returns whether servers can have such a clock here, or what is missing.
    pub fn check() -> Result<(), String> {
        libraries().map(|_| ())
    }

    /// Sets the difference from the system's clock in seconds, from the server's next reading on.
    pub fn set(&self, seconds: f64) {
        self.write(&format!("{seconds:+.6}"));
    }

    /// Must be called when a server is up; until then its clock may be late. The library starts
    /// twice. If it has no memory of its own (see [`remove_shared_memory`]), it adds the offset to
    /// the time of its first start, and the time that has passed since its second one. If the same
    /// offset is written in another form, it is added to the current time.
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

    /// Returns the words before a program and its arguments. They use `env`, so that the shell that
    /// watches the program keeps the system's clock.
    pub fn prefix(&self) -> Vec<String> {
        let preload = if IS_MAC { "DYLD_INSERT_LIBRARIES" } else { "LD_PRELOAD" };
        let file = self.file.to_str().expect("the temporary directory's name is UTF-8");
        vec![
            "env".into(),
            format!("{preload}={}", libraries().unwrap_or_else(|missing| panic!("{missing}"))),
            format!("FAKETIME_TIMESTAMP_FILE={file}"),
            "FAKETIME_NO_CACHE=1".into(),
            "FAKETIME_DONT_FAKE_MONOTONIC=1".into(),
            "FAKETIME_DISABLE_SHM=1".into(),
        ]
    }
}

/// Versions without `FAKETIME_DISABLE_SHM` create two named objects for the process. A killed
/// process leaves them, and a later process with the same id runs without them. Once it is up, a
/// process no longer needs the names.
fn remove_shared_memory(pid: Pid) {
    let pid = pid.as_raw_pid();
    for name in [format!("faketime_shm_{pid}"), format!("sem.faketime_sem_{pid}")] {
        let _ = fs::remove_file(Path::new("/dev/shm").join(name));
    }
}

/// Returns the libraries to preload. The C library comes second: if jemalloc comes before it, the
/// two call each other endlessly while they start. It has no path, as a server may have its own.
fn libraries() -> Result<String, String> {
    if IS_MAC {
        return find("faketime/libfaketime.1.dylib");
    }
    Ok(format!("{}:libc.so.6", find("faketime/libfaketimeMT.so.1")?))
}

fn find(name: &str) -> Result<String, String> {
    let debian = format!("/usr/lib/{}-linux-gnu", env::consts::ARCH);
    let places = [&debian, "/usr/lib64", "/usr/lib", "/lib64", "/lib", "/opt/homebrew/lib"];
    let files = places.into_iter().chain(["/usr/local/lib"]).map(|dir| Path::new(dir).join(name));
    let found = files.into_iter().find(|file| file.exists()).ok_or_else(|| {
        format!(
            "{name} was not found: run scripts/test, or install it: \
             apt install libfaketime | dnf install libfaketime | brew install libfaketime"
        )
    })?;
    Ok(found.to_str().expect("a UTF-8 name").to_owned())
}
