//! Fences that a client of form 2 stored, as a hash.

use std::collections::BTreeMap;

use super::scene::pairs;
use crate::support::{RedisServer, Resp};

const CHANGE: &str = include_str!("../../../src/node/redis/scripts/change.lua");
const FENCES: &str = include_str!("../../../src/node/redis/scripts/fences.lua");

/// A server with these fences under the key `before`.
fn server(fences: &[(&str, &str)]) -> RedisServer {
    let server = RedisServer::start();
    let fields = fences.iter().flat_map(|(stripe, fence)| [*stripe, *fence]);
    let command: Vec<_> = ["HSET", "before"].into_iter().chain(fields).collect();
    server.cli(&command);
    server
}

fn scores(server: &RedisServer, key: &str) -> BTreeMap<String, String> {
    pairs(server.cli(&["ZRANGE", key, "0", "-1", "WITHSCORES"]))
}

#[test]
fn hash_becomes_a_sorted_set() {
    let server = server(&[("3", "1764000000000007"), ("5", "9")]);
    server.cli(&["ZADD", "after", "8", "3", "40", "5", "41", "6"]);
    let change = ["EVAL", CHANGE, "3", "meta", "before", "after", "0", "0", "0", "0"];

    assert_eq!(server.cli(&change), Resp::Int(1));

    let fences = [("3", "1764000000000007"), ("5", "40"), ("6", "41")];
    let expected = fences.map(|(stripe, fence)| (stripe.to_owned(), fence.to_owned()));
    assert_eq!(scores(&server, "after"), BTreeMap::from(expected), "the greater ones");
    assert!(!server.exists("before"));
}

#[test]
fn both_forms_are_read() {
    let server = server(&[("3", "7")]);
    server.cli(&["ZADD", "later", "8", "4"]);
    server.cli(&["HSET", "meta", "tag", "a 1"]);
    let read = |key: &str| {
        let mut answer = server.cli(&["EVAL", FENCES, "2", key, "meta"]).items().into_iter();
        let fences = answer.next().expect("the fences").items();
        let tag = answer.next().expect("the tag").text();
        (fences.into_iter().map(Resp::text).collect::<Vec<_>>(), tag)
    };

    assert_eq!(read("before"), (vec!["3".into(), "7".into()], "a 1".into()));
    assert_eq!(read("later"), (vec!["4".into(), "8".into()], "a 1".into()));
    assert_eq!(read("missing").0, [""; 0]);
}
