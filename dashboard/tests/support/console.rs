//! What the browser has logged about the pages.

use serde_json::Value;

/// Returns the entries about a violated policy, or an error other than a response with an expected status.
pub(super) fn complaints(log: &Value, expected: &[u16]) -> Vec<String> {
    let entries = log.as_array().expect("the log is a list");
    let complaints = entries.iter().filter(|entry| {
        let message = entry["message"].as_str().unwrap_or_default();
        let violates_policy = ["Content Security Policy", "Content-Security-Policy", "Refused to"]
            .iter()
            .any(|words| message.contains(words));
        let is_error = entry["level"] == "SEVERE" || entry["source"] == "security";
        let is_expected =
            expected.iter().any(|status| message.contains(&format!("with a status of {status}")));
        violates_policy || (is_error && !is_expected)
    });
    complaints.map(ToString::to_string).collect()
}
