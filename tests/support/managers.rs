//! Managers over servers of a test.

use tower_redlock::{RedlockBuilder, node::redis::RestartGuard};

/// A manager over servers that are thrown away: they vote at once, and have names by their order,
/// so that two ways to one server are the same node.
pub fn over<I>(builder: RedlockBuilder, urls: I) -> RedlockBuilder
where
    I: IntoIterator,
    I::Item: Into<String>,
{
    let named = |builder: RedlockBuilder, (i, url): (usize, I::Item)| {
        builder.named_node(format!("node-{}", i + 1), url)
    };
    urls.into_iter().enumerate().fold(builder.restart_guard(RestartGuard::Off), named)
}
