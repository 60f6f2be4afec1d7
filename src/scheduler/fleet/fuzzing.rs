//! Fuzz target of the documents about jobs that nodes keep.

#![allow(clippy::missing_panics_doc, reason = "a panic is a broken promise")]

use super::{control::JobControl, history::JobRuns};
use crate::protocol::JobDocument;

/// Reads the control and the history of a job. What is written of them fits, and is read again.
pub fn documents(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let control = JobControl::from_text(text);
    assert!(control.requested.len() <= JobControl::MAX_REQUESTS);
    let again = JobControl::from_text(&control.to_text());
    assert_eq!(again.requested.len(), control.requested.len());
    assert_eq!(again.paused.is_some(), control.paused.is_some());
    let written = JobRuns::from_text(text).to_text();
    assert!(written.len() <= JobDocument::MAX_BYTES);
    assert_eq!(JobRuns::from_text(&written).to_text(), written);
}
