//! Servers whose clocks can be set: libfaketime between them and the system.

use std::fs;
use std::path::{Path, PathBuf};

/// The libraries that are loaded into a server.
#[derive(Clone, Debug)]
pub(crate) struct Faketime {
    preload: String,
}

const MISSING: &str = "libfaketime was not found, without which the servers' clocks can't jump: \
     apt-get install libfaketime | dnf install libfaketime, or leave these faults out: \
     --without clock-faults";

impl Faketime {
    pub(crate) fn find() -> Result<Self, String> {
        if !cfg!(target_os = "linux") {
            let reason = "the servers' clocks can be made to jump on Linux only; \
                 leave these faults out: --without clock-faults";
            return Err(reason.into());
        }
        let faketime = first(
            &["/usr/lib64/faketime", "/usr/lib/faketime", "/usr/local/lib/faketime"],
            "/usr/lib",
            "faketime/libfaketimeMT.so.1",
        );
        let libc = first(&["/lib64", "/usr/lib64"], "/lib", "libc.so.6")
            .or_else(|| first(&["/usr/lib", "/lib"], "/usr/lib", "libc.so.6"));
        match (faketime, libc) {
            // Without libc in this place the server's allocator asks for the time before it can be told.
            (Some(faketime), Some(libc)) => {
                Ok(Self { preload: format!("{}:{}", faketime.display(), libc.display()) })
            }
            (None, _) => Err(MISSING.into()),
            (_, None) => Err("libc.so.6 was not found: --without clock-faults".into()),
        }
    }

    /// What the environment of a server must have, so that `file` says how its clock stands.
    pub(crate) fn environment(&self, file: &Path) -> [String; 4] {
        [
            format!("LD_PRELOAD={}", self.preload),
            format!("FAKETIME_TIMESTAMP_FILE={}", file.display()),
            "FAKETIME_NO_CACHE=1".into(),
            "FAKETIME_DONT_FAKE_MONOTONIC=1".into(),
        ]
    }
}

/// The file in one of the directories, or under one of the folder's directories for this machine's
/// kind of processor.
fn first(directories: &[&str], folder: &str, file: &str) -> Option<PathBuf> {
    let name = Path::new(file).file_name().expect("a file");
    let plain = directories.iter().map(|directory| Path::new(directory).join(name));
    let ours = |path: &PathBuf| {
        let directory = path.file_name().unwrap_or_default().to_string_lossy();
        directory.starts_with(std::env::consts::ARCH)
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let by_machine = entries.map(|entry| entry.path()).filter(ours).map(|path| path.join(file));
    plain.chain(by_machine).find(|path| path.exists())
}
