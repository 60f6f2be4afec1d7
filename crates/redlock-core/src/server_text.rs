//! Formats texts of servers for errors and logs.

use std::fmt::{self, Write};

/// Maximum number of characters of a server's text that are shown.
const MAX_CHARS: usize = 1_000;

/// A text of a server, formatted on one line and truncated if it is long.
///
/// A broken or hostile server must not forge lines of a log, nor fill it.
#[derive(Clone, Copy, Debug)]
pub struct ServerText<'a>(pub &'a str);

impl fmt::Display for ServerText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, c) in self.0.chars().enumerate() {
            match c {
                _ if i == MAX_CHARS => return f.write_char('…'),
                c if c.is_control() => write!(f, "{}", c.escape_default())?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::vote::{Reason, Vote, VoteOutcome};

    #[test]
    fn server_texts_are_one_line() {
        let text: Arc<str> = "a\nb\u{1b}[2Jc\u{85}".into();
        let reasons = [
            Reason::Auth(Arc::clone(&text)),
            Reason::NoPermission(Arc::clone(&text)),
            Reason::Server(Arc::clone(&text)),
            Reason::NotConnected(text.to_string().into()),
            Reason::Protocol(text.to_string().into()),
            Reason::Evicts { policy: Arc::clone(&text) },
            Reason::OtherLayout { found: Arc::clone(&text), ours: "".into() },
        ];
        let owner = || Some(Arc::clone(&text));
        let held = VoteOutcome::Held { owner: owner(), remaining: None };
        let outcomes = reasons.into_iter().map(VoteOutcome::NotCounted).chain([held]);
        let votes = outcomes.map(|outcome| Vote::new("node".into(), outcome).to_string());

        for shown in votes {
            assert!(shown.contains(r"a\nb\u{1b}[2Jc\u{85}"), "{shown:?}");
            assert!(!shown.contains(char::is_control), "{shown:?}");
        }
    }

    #[test]
    fn long_server_text_is_cut() {
        let shown = |length: usize| Reason::Server("ä".repeat(length).into()).to_string();
        assert_eq!(shown(1_000), format!("server error: {}", "ä".repeat(1_000)));
        assert_eq!(shown(65_000), format!("server error: {}…", "ä".repeat(1_000)));
    }
}
