//! The nodes of a configuration: a list, or a text with commas; with semicolons between sets.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Visitor, value::SeqAccessDeserializer},
};

use super::{NamedUrl, NodeUrl};

/// The nodes of one of several sets.
#[derive(Clone, Deserialize)]
pub(super) struct SetNodes(#[serde(deserialize_with = "read")] pub(super) Vec<NodeUrl>);

/// Reads a list of nodes, or a text `url,name=url,…`. Errors do not repeat the text, as a URL may contain
/// a password.
pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<NodeUrl>, D::Error> {
    struct NodeList;
    impl<'de> Visitor<'de> for NodeList {
        type Value = Vec<NodeUrl>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of URLs")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(list))
        }

        fn visit_str<E: Error>(self, list: &str) -> Result<Self::Value, E> {
            nodes(list)
        }
    }
    deserializer.deserialize_any(NodeList)
}

/// Reads a list of sets, each of which [`read`] reads, or a text `url,url;url,url`.
pub(super) fn read_sets<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<SetNodes>, D::Error> {
    struct NodeLists;
    impl<'de> Visitor<'de> for NodeLists {
        type Value = Vec<SetNodes>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of sets, each of them a list of URLs")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(list))
        }

        fn visit_str<E: Error>(self, sets: &str) -> Result<Self::Value, E> {
            let sets = sets.split(';').filter(|set| !set.trim().is_empty());
            sets.map(|set| nodes(set).map(SetNodes)).collect()
        }
    }
    deserializer.deserialize_any(NodeLists)
}

/// Parses `url,name=url,…`.
fn nodes<E: Error>(list: &str) -> Result<Vec<NodeUrl>, E> {
    let entries = entries(list);
    if entries.is_empty() {
        return Err(E::custom("it names no server"));
    }
    if entries.iter().any(|entry| !entry.contains("://")) {
        // Not shown: it may be a part of a password.
        return Err(E::custom(
            "an entry between two commas is not a URL such as redis://host:port; write a comma in a \
             password as %2C",
        ));
    }
    Ok(entries.iter().map(|entry| node(entry)).collect())
}

/// Parses `url` or `name=url`.
fn node(entry: &str) -> NodeUrl {
    match entry.split_once('=') {
        // A URL may have a `=` as well, in a password or a query.
        Some((name, url)) if !name.contains("://") => {
            NodeUrl::Named(NamedUrl { name: name.trim().to_owned(), url: url.trim().to_owned() })
        }
        _ => NodeUrl::Plain(entry.to_owned()),
    }
}

/// Splits a list at its commas, except at commas between the hosts of one URL and inside a password.
fn entries(list: &str) -> Vec<String> {
    let parts: Vec<_> = list.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
    let mut entries: Vec<String> = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let is_url = part.contains("://");
        // The password ends at the `@`, which is in a later part.
        let ends_later = || {
            parts[at..]
                .iter()
                .take_while(|part| !part.contains("://"))
                .any(|part| part.contains('@'))
        };
        let goes_on = |entry: &&mut String| {
            let has_hosts = entry.contains("+sentinel://") || entry.contains("+cluster://");
            let credentials = entry
                .split_once("://")
                .is_some_and(|(_, rest)| rest.contains(':') && !rest.contains(['@', '/']));
            has_hosts || (credentials && ends_later())
        };
        match entries.last_mut().filter(goes_on) {
            Some(entry) if !is_url => {
                entry.push(',');
                entry.push_str(part);
            }
            _ => entries.push((*part).to_owned()),
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_one_url_stay_together() {
        for (list, expected) in [
            ("redis://a, b=redis://b:1,", &["redis://a", "b=redis://b:1"][..]),
            ("redis+sentinel://s1,s2:2, s3/locks", &["redis+sentinel://s1,s2:2,s3/locks"]),
            (
                "a=rediss+sentinel://u:p@s1,s2/locks/2?sentinel_pass=x,redis+cluster://c,d,e=redis://e",
                &[
                    "a=rediss+sentinel://u:p@s1,s2/locks/2?sentinel_pass=x",
                    "redis+cluster://c,d",
                    "e=redis://e",
                ],
            ),
            (
                "redis+sentinel://s1,s2/locks?sentinel_tls=yes,b=redis://b",
                &["redis+sentinel://s1,s2/locks?sentinel_tls=yes", "b=redis://b"],
            ),
            ("redis://a,b", &["redis://a", "b"]),
            (
                "redis://:pa,ss@h1,redis://u:p,a,ss@h2",
                &["redis://:pa,ss@h1", "redis://u:p,a,ss@h2"],
            ),
            ("n=redis://:p,@h1,redis://h2", &["n=redis://:p,@h1", "redis://h2"]),
            ("redis://h1:1,b@c", &["redis://h1:1,b@c"]),
            ("redis://h1:1/2,b@c", &["redis://h1:1/2", "b@c"]),
            ("", &[]),
        ] {
            assert_eq!(entries(list), expected, "{list}");
        }
    }
}
