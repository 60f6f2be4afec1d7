//! The process of the command, before it is the command: it ends with the process that started it.

use std::{
    env,
    ffi::OsString,
    io,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use rustix::process::{Pid, Signal, getppid};

use crate::exit::Failure;

/// The argument that makes this program the process of a command.
pub(super) const ARGUMENT: &str = "__start";

/// Variables of `sd_watchdog_enabled(3)` and `sd_listen_fds(3)`: each names the process that they are for.
const PID_VARIABLES: [&str; 2] = ["WATCHDOG_PID", "LISTEN_PID"];
/// The value of such a variable that is for the command, whatever its process id will be.
const OF_COMMAND: &str = "redlock-run";

/// The command can't be run.
const CANNOT_RUN: u8 = 126;
/// The command is not found.
const NOT_FOUND: u8 = 127;

/// Replaces this process by a command. Arguments: the id of the process that started this one; the command
/// and its arguments. Returns if that fails.
pub(super) fn main(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let parent = args.next().and_then(|pid| pid.to_str()?.parse().ok()).and_then(Pid::from_raw);
    let Some(command) = args.next() else { return ExitCode::from(CANNOT_RUN) };
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)) {
        return failure(&command, &error.into()).report();
    }
    // It may have ended before the signal was set.
    if getppid() != parent {
        return ExitCode::from(CANNOT_RUN);
    }
    let is_of_command = |name: &&str| env::var_os(name).is_some_and(|value| value == OF_COMMAND);
    let variables = PID_VARIABLES.into_iter().filter(is_of_command);
    let variables = variables.map(|name| (name, std::process::id().to_string()));
    failure(&command, &Command::new(&command).args(args).envs(variables).exec()).report()
}

/// Returns the variables by which systemd passes a watchdog and sockets on to this process, for the command.
pub(super) fn passed_on() -> impl Iterator<Item = (&'static str, &'static str)> {
    let own = std::process::id().to_string();
    let is_own = move |name: &&str| env::var_os(name).is_some_and(|value| *value == *own);
    PID_VARIABLES.into_iter().filter(is_own).map(|name| (name, OF_COMMAND))
}

/// Replaces this process by a command. Returns if that fails.
pub(super) fn replace(command: &[OsString]) -> Failure {
    let Some((program, args)) = command.split_first() else { return Failure::usage("no command") };
    failure(program, &Command::new(program).args(args).exec())
}

/// Checks that the program of a command exists and may be executed, as execvp(3) would find it.
pub(super) fn check(command: &[OsString]) -> Result<(), Failure> {
    let Some(program) = command.first() else { return Ok(()) };
    let path = Path::new(program);
    let candidates: Vec<PathBuf> = if program.as_encoded_bytes().contains(&b'/') {
        vec![path.into()]
    } else {
        let paths = env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
        env::split_paths(&paths).map(|folder| folder.join(path)).collect()
    };
    let mut reason = io::Error::from(io::ErrorKind::NotFound);
    for candidate in candidates {
        match candidate.metadata() {
            Ok(found) if found.is_file() && found.permissions().mode() & 0o111 != 0 => {
                return Ok(());
            }
            Ok(_) => reason = io::ErrorKind::PermissionDenied.into(),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => reason = error,
            Err(_) => {}
        }
    }
    Err(failure(program, &reason))
}

fn failure(program: &OsString, error: &io::Error) -> Failure {
    let is_missing = error.kind() == io::ErrorKind::NotFound;
    let code = if is_missing { NOT_FOUND } else { CANNOT_RUN };
    Failure::new(code, format!("{}: {error}", program.display()))
}

/// Returns a command that starts this program, even if its file was replaced meanwhile.
pub(super) fn this_program() -> io::Result<Command> {
    if cfg!(target_os = "linux") {
        let mut command = Command::new("/proc/self/exe");
        command.arg0("redlock");
        Ok(command)
    } else {
        env::current_exe().map(Command::new)
    }
}
