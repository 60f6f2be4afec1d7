//! The holders of a shared lock, in texts and in JSON.

use std::sync::Arc;

use serde_json::{Value, json};
use tower_redlock::lock::Holder;

use crate::output::{shown, shown_or, unix_millis};

/// Maximum number of readers that a text names.
const MAX_NAMED_READERS: usize = 3;

/// Returns the owner of a lock, or its readers: `2 readers: alice, bob`.
pub(crate) fn owners(holder: &Holder, foreign: &str) -> String {
    if !holder.is_shared() {
        return shown_or(holder.owner.as_deref(), foreign);
    }
    let names = holder.shared_by.iter().take(MAX_NAMED_READERS).map(|reader| shown(&reader.owner));
    let names = names.collect::<Vec<_>>().join(", ");
    let rest = holder.readers.saturating_sub(holder.shared_by.len().min(MAX_NAMED_READERS));
    let rest = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    format!("{}: {names}{rest}", count(holder.readers))
}

/// Returns a number of readers in words.
fn count(readers: usize) -> String {
    if readers == 1 { "1 reader".into() } else { format!("{readers} readers") }
}

/// Adds the mode of a lock, and its readers, to an object about it.
pub(super) fn with_readers(mut json: Value, holder: &Holder) -> Value {
    let reader =
        |(owner, since): (&Arc<str>, _)| json!({ "owner": &**owner, "since_unix_ms": since });
    let readers = holder.shared_by.iter();
    let readers = readers.map(|of| reader((&of.owner, of.since.and_then(unix_millis))));
    json["mode"] = if holder.is_shared() { "shared" } else { "exclusive" }.into();
    json["readers"] = holder.readers.into();
    json["shared_by"] = readers.collect();
    json["waiter"] = holder.waiter.as_deref().into();
    json
}

#[cfg(test)]
mod tests {
    use tower_redlock::{Redlock, node::EmbeddedNodes};

    use super::*;

    #[tokio::test]
    async fn first_readers_are_named() {
        let nodes = EmbeddedNodes::new(3);
        let mut held = Vec::new();
        let expected = [
            "1 reader: p",
            "2 readers: p, p",
            "3 readers: p, p, p",
            "4 readers: p, p, p and 1 more",
            "5 readers: p, p, p and 2 more",
        ];
        for expected in expected {
            let redlock = Redlock::builder().nodes_from(&nodes).owner("p").build().unwrap();
            held.push(redlock.lock("a").shared().await.unwrap());
            let holder = redlock.inspect("a").await.unwrap().unwrap();
            assert_eq!(owners(&holder, "foreign"), expected);
            let json = with_readers(json!({}), &holder);
            assert_eq!((&json["mode"], &json["readers"]), (&"shared".into(), &held.len().into()));
            assert_eq!(json["shared_by"][0]["owner"], "p");
            assert!(json["shared_by"][0]["since_unix_ms"].is_u64(), "{json}");
        }
    }
}
