//! Which server the tests start.

use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::{env, io};

/// The variable that chooses the server: a path, or a name in `PATH`.
const VARIABLE: &str = "REDLOCK_TEST_SERVER";

/// The chosen server, or else the first one that is installed.
pub fn program() -> Result<&'static str, String> {
    static FOUND: OnceLock<Result<String, String>> = OnceLock::new();
    FOUND.get_or_init(find).as_deref().map_err(Clone::clone)
}

fn find() -> Result<String, String> {
    if let Ok(chosen) = env::var(VARIABLE) {
        let missing = format!("{VARIABLE} is {chosen:?}, which cannot be started");
        return if is_installed(&chosen) { Ok(chosen) } else { Err(missing) };
    }
    let found = ["redis-server", "valkey-server"].into_iter().find(|name| is_installed(name));
    found.map(ToOwned::to_owned).ok_or_else(|| {
        "redis-server was not found: run scripts/test, or install it: \
         apt-get install redis-server | dnf install redis | brew install redis"
            .into()
    })
}

fn is_installed(name: &str) -> bool {
    let run = Command::new(name).arg("--version").stdout(Stdio::null()).status();
    !run.is_err_and(|error| {
        matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
    })
}
