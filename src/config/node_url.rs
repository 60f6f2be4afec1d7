//! A node of a configuration.

use serde::Deserialize;

/// `"redis://…"`, or `{ name = "a", url = "redis://…" }`.
#[derive(Clone, Deserialize)]
#[serde(untagged, expecting = "a URL, or a table of `name` and `url`")]
pub(super) enum NodeUrl {
    Plain(String),
    Named(NamedUrl),
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NamedUrl {
    pub(super) name: String,
    pub(super) url: String,
}
