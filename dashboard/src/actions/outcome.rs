//! The result of an action.

use crate::problem::Problem;

/// The result of an action, with what it has done in words.
pub(super) type Acted = Result<(Done, String), Problem>;

/// What an action has done, as the next page says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    LockBroken,
    /// The holder had lost the lock already.
    LockGone,
    RunRequested,
    StopRequested,
    Paused,
    Resumed,
    Recorded,
    Forgotten,
    /// There was no record.
    NoRecord,
}

impl Done {
    /// Each with its code in an address, and what the page says.
    const EACH: [(Self, &'static str, &'static str); 9] = [
        (Self::LockBroken, "break", "The lock was taken away from the holder that was shown."),
        (Self::LockGone, "break-gone", "Its holder had lost it already: nothing was taken away."),
        (Self::RunRequested, "trigger", "A replica that has the job starts a run within seconds."),
        (Self::StopRequested, "stop", "The run was asked to stop, which takes some seconds."),
        (Self::Paused, "pause", "The job was paused on the whole fleet."),
        (Self::Resumed, "resume", "The job has no pause on the fleet any more."),
        (Self::Recorded, "done", "The key was recorded as done."),
        (Self::Forgotten, "forget", "The record of the key was removed."),
        (Self::NoRecord, "forget-none", "There was no record to remove."),
    ];

    pub(crate) fn code(self) -> &'static str {
        Self::EACH.iter().find(|(done, ..)| *done == self).map_or("", |(_, code, _)| code)
    }

    /// Returns what a code says; `None` for an unknown one.
    pub(crate) fn text_of(code: &str) -> Option<&'static str> {
        Self::EACH.iter().find(|(_, other, _)| *other == code).map(|(.., text)| *text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_lead_to_their_text() {
        for (done, code, text) in Done::EACH {
            assert_eq!((done.code(), Done::text_of(code)), (code, Some(text)));
        }
        assert_eq!(Done::text_of("else"), None);
    }
}
