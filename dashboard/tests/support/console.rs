//! What the browser has logged about the pages.

use serde_json::Value;

/// The log entries that a test expects.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Quiet {
    /// None that is an error.
    Wholly,
    /// Answers with one of these status codes.
    But(&'static [u16]),
}

impl Quiet {
    fn expects(self, message: &str) -> bool {
        match self {
            Self::Wholly => false,
            Self::But(codes) => {
                codes.iter().any(|code| message.contains(&format!("with a status of {code}")))
            }
        }
    }
}

/// Returns the entries that speak of a policy that was violated, or of an error that is not expected.
pub(super) fn complaints(log: &Value, quiet: Quiet) -> Vec<String> {
    let entries = log.as_array().expect("the log is a list");
    let complaints = entries.iter().filter(|entry| {
        let message = entry["message"].as_str().unwrap_or_default();
        let breaks_policy = ["Content Security Policy", "Content-Security-Policy", "Refused to"]
            .iter()
            .any(|words| message.contains(words));
        let is_error = entry["level"] == "SEVERE" || entry["source"] == "security";
        breaks_policy || (is_error && !quiet.expects(message))
    });
    complaints.map(ToString::to_string).collect()
}
