//! Exit codes, as in sysexits.h, and failures that end the program with one.

use std::{io, process::ExitCode};

use tower_redlock::{LockError, error::BuildError, lock::NotReady};

use crate::output::{say, shown};

/// Wrong usage, or an action that was not confirmed.
pub(crate) const USAGE: u8 = 64;
/// A key that this crate did not write.
pub(crate) const FOREIGN: u8 = 65;
/// What a name stands for does not exist: nothing was changed.
pub(crate) const UNKNOWN: u8 = 66;
/// No quorum of the servers answered, or not all whose answer is needed.
pub(crate) const UNAVAILABLE: u8 = 69;
/// The lock was lost, and the work stopped.
pub(crate) const LOST: u8 = 70;
/// An error of the operating system.
pub(crate) const SYSTEM: u8 = 71;
/// The output could not be written.
const OUTPUT: u8 = 74;
/// The lock is held by another client.
pub(crate) const HELD: u8 = 75;
/// Another command has run the tick under the name of the job.
pub(crate) const CONFLICT: u8 = 76;
/// A missing or wrong setting, or servers that do not vote for a reason that lasts.
pub(crate) const CONFIG: u8 = 78;
/// The reader of the output has ended: the code of a program that SIGPIPE ended.
const CLOSED: u8 = 128 + 13;

/// Why the program ends without success.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(USAGE, message)
    }

    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self::new(CONFIG, message)
    }

    pub(crate) fn system(message: impl Into<String>) -> Self {
        Self::new(SYSTEM, message)
    }

    /// The standard output could not be written. There is no message if its reader has ended.
    pub(crate) fn output(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::new(CLOSED, ""),
            _ => Self::new(OUTPUT, format!("the standard output: {error}")),
        }
    }

    /// Prints the message on one line. Returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        if !self.message.is_empty() {
            say(&format!("redlock: {}", shown(&self.message)));
        }
        ExitCode::from(self.code)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::system(error.to_string())
    }
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Self {
        Self::config(error.to_string())
    }
}

impl From<NotReady> for Failure {
    fn from(why: NotReady) -> Self {
        Self::new(if why.heals { UNAVAILABLE } else { CONFIG }, why.to_string())
    }
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        let code = match error.root() {
            LockError::Held { .. } => HELD,
            LockError::Lost { .. } => LOST,
            LockError::InvalidResource(_) | LockError::InvalidRequest(_) => USAGE,
            LockError::NoRandomness(_) => SYSTEM,
            _ => UNAVAILABLE,
        };
        Self::new(code, text(&error))
    }
}

/// Returns the text of an error; where all slots of a name are held, with every holder.
fn text(error: &LockError) -> String {
    let whole = error.to_string();
    let root = error.root();
    let LockError::Held { slots, expires_in, .. } = root else { return whole };
    if slots.is_empty() {
        return whole;
    }
    let before = whole.strip_suffix(&root.to_string()).unwrap_or_default();
    let holders = slots.iter().map(|holder| {
        let owner = holder.owner.as_deref().unwrap_or("another client");
        format!("slot {} by {owner}", holder.slot)
    });
    let holders = holders.collect::<Vec<_>>().join(", ");
    let free = expires_in.map(|after| format!("; one is free in {after:.1?} unless renewed"));
    format!("{before}all {} slots are held: {holders}{}", slots.len(), free.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tower_redlock::{Redlock, node::EmbeddedNodes};

    use super::*;

    #[tokio::test]
    async fn full_set_names_every_holder() {
        let redlock =
            Redlock::builder().nodes_from(&EmbeddedNodes::new(3)).owner("me").build().unwrap();
        let request = || redlock.lock("export").slots(10);
        let mut held = Vec::new();
        for _ in 0..10 {
            held.push(request().await.unwrap());
        }

        let at_once = Failure::from(request().await.unwrap_err());
        let later = Failure::from(request().wait(Duration::from_millis(1)).await.unwrap_err());

        assert_eq!((at_once.code, later.code), (HELD, HELD));
        let all = "all 10 slots are held: slot 0 by me, slot 1 by me, ";
        assert!(at_once.message.starts_with(all), "{}", at_once.message);
        assert!(at_once.message.contains(", slot 9 by me"), "{}", at_once.message);
        assert!(later.message.starts_with("gave up after waiting "), "{}", later.message);
        assert!(later.message.contains(&format!("; last seen: {all}")), "{}", later.message);
    }
}
