//! The fences of a server when its view changes.

use std::collections::BTreeMap;

use crate::fixture::{RedisServer, Resp, guard::pairs};

const CHANGE: &str = include_str!("../../../src/node/redis/scripts/change.lua");

fn scores(server: &RedisServer, key: &str) -> BTreeMap<String, String> {
    pairs(server.cli(&["ZRANGE", key, "0", "-1", "WITHSCORES"]))
}

#[test]
fn fences_move_to_the_next_view_and_only_grow() {
    let server = RedisServer::start();
    server.cli(&["ZADD", "before", "1764000000000007", "3", "9", "5"]);
    server.cli(&["ZADD", "after", "8", "3", "40", "5", "41", "6"]);
    let change = ["EVAL", CHANGE, "3", "meta", "before", "after", "0", "0", "0", "0"];
    assert_eq!(server.cli(&change), Resp::Int(1));
    let fences = [("3", "1764000000000007"), ("5", "40"), ("6", "41")];
    let expected = fences.map(|(stripe, fence)| (stripe.to_owned(), fence.to_owned()));
    assert_eq!(scores(&server, "after"), BTreeMap::from(expected), "the greater ones");
    assert!(!server.exists("before"));
}
