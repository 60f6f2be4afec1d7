//! Work that asks to be run again.

use std::{borrow::Cow, error::Error, fmt};

/// The error of work that has not done all that it had to, and wants to be run again.
///
/// Any job may return it, also as a [source](Error::source) of its own error. Where the job
/// [claims at the end](super::Claim::AtEnd), the run has the outcome
/// [`NotDone`](super::Outcome::NotDone), and its tick is run again as one more
/// [attempt](super::JobContext::attempt), on this replica or another. The pause before that begins
/// with the job's [`backoff`](super::Job::backoff) and doubles with every attempt, up to a minute; the
/// lock is kept meanwhile, unless the scheduler shuts down. The job's
/// [`retries`](super::Job::retries) are not used up.
///
/// Where it [claims at the start](super::Claim::AtStart), a tick is never run twice: there it is an
/// error as any other.
///
/// ```
/// use std::time::Duration;
/// use tower_redlock::{scheduler::{Claim, NotDone}, Job, JobContext, Schedule};
///
/// let hourly = Schedule::every(Duration::from_secs(3600));
/// let import = Job::new("import", hourly, |cx: JobContext| async move {
///     for file in 0..100 {
///         # async fn import(_file: u32) {}
///         tokio::select! {
///             () = import(file) => {}
///             () = cx.stopping() => return Err(NotDone::new(format!("{file} of 100 files"))),
///         }
///     }
///     Ok(())
/// })
/// .claim(Claim::AtEnd);
/// # drop(import);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotDone {
    reason: Cow<'static, str>,
}

impl NotDone {
    /// With what is left to do, or why: for people.
    pub fn new(reason: impl Into<Cow<'static, str>>) -> Self {
        Self { reason: reason.into() }
    }

    /// Whether it is the error, or one of its sources.
    pub(super) fn is_in(error: &(dyn Error + 'static)) -> bool {
        /// Longer chains are taken for endless.
        const MAX_SOURCES: usize = 64;
        let mut next = Some(error);
        for _ in 0..MAX_SOURCES {
            let Some(error) = next else { return false };
            if error.is::<Self>() {
                return true;
            }
            next = error.source();
        }
        false
    }
}

impl fmt::Display for NotDone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not done: {}", self.reason)
    }
}

impl Error for NotDone {}
