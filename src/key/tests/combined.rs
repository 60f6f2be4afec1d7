//! Prefixes, hashes, filters and sets.

use http::{Method, Request};

use super::{error, get, name, some};
use crate::key;

/// The hash of `42`, computed by another implementation of SHA-256.
const HASH_OF_42: &str = "73475cb40a568e8da8a045ced110137e159f890ac4da883b6b17dc651b3a8049";

#[test]
fn prefix_and_hash_follow_call_order() {
    let request = get("/42");
    let key = key::path_segment(0);
    assert_eq!(name(&key.prefixed("a:"), &request), some("a:42"));
    assert_eq!(name(&key.prefixed("a:").prefixed("b:"), &request), some("b:a:42"));
    assert_eq!(name(&key.hashed(), &request), some(HASH_OF_42));
    assert_eq!(name(&key.hashed().prefixed("a:"), &request), Ok(Some(format!("a:{HASH_OF_42}"))));
    assert_eq!(name(&key.prefixed("4").hashed(), &get("/2")), some(HASH_OF_42));
}

#[test]
fn different_parts_make_different_names() {
    let id = key::query("id");
    let of = |prefix: &str, id_of: &str| name(&id.clone().prefixed(prefix), &get(id_of));
    assert_eq!(of("shop:", "/?id=eu:1"), some("shop:eu%3A1"));
    assert_eq!(of("shop:eu:", "/?id=1"), some("shop:eu:1"));
    assert_eq!(of("shop:", "/?id=eu%253A1"), some("shop:eu%253A1"));
    let kept =
        id.clone().prefixed("b:").only([Method::GET]).when(|_| true).optional().prefixed("a:");
    assert_eq!(name(&kept, &get("/?id=x:y")), some("a:b:x%3Ay"));

    let both = key::joined((key::query("a"), key::query("b").prefixed("b-")));
    for (uri, joined) in
        [("/?a=1&b=2", "1:b-2"), ("/?a=1:b-2&b=3", "1%3Ab-2:b-3"), ("/?a=1&b=2:b-3", "1:b-2%3Ab-3")]
    {
        assert_eq!(name(&both, &get(uri)), some(joined), "{uri}");
    }
    assert_eq!(name(&both.clone().prefixed("x:"), &get("/?a=1&b=2")), some("x:1:b-2"));
    assert_eq!(name(&both, &get("/?a=1")), error("the query has no parameter b"));
    assert_eq!(name(&both.clone().optional(), &get("/?a=1")), Ok(None));
    let set = key::all((key::query("a"), key::query("b")));
    let misplaced = key::joined((key::query("a"), set));
    assert!(name(&misplaced, &get("/?a=1&b=2")).unwrap_err().contains("not a set"));
}

#[test]
fn parsed_values_have_one_spelling() {
    let key = key::query("id").parsed::<u32>().prefixed("account:");

    for uri in ["/?id=42", "/?id=042", "/?id=%2B42", "/?id=%2B0042"] {
        assert_eq!(name(&key, &get(uri)), some("account:42"), "{uri}");
    }

    let text = "the lock key in this request is malformed";
    for uri in ["/?id=x", "/?id=-1", "/?id=+42", "/?id=4294967296"] {
        assert_eq!(name(&key, &get(uri)), error(text), "{uri}");
    }
    assert_eq!(name(&key.clone().optional(), &get("/")), Ok(None));
    assert_eq!(name(&key.optional(), &get("/?id=x")), error(text));

    let both = key::all((key::query("from"), key::query("to"))).parsed::<u32>();
    assert_eq!(name(&both, &get("/?from=02&to=1")), some("1 + 2"));
    assert_eq!(name(&both, &get("/?from=2&to=x")), error(text));
}

/// Test case 2 of RFC 4231.
#[test]
fn a_keyed_hash_is_hmac() {
    let request = get("/what%20do%20ya%20want%20for%20nothing%3F");
    let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
    let key = key::path_segment(0);
    assert_eq!(name(&key.hashed_with("Jefe"), &request), some(expected));
    assert_ne!(name(&key.hashed_with("other"), &request), some(expected));
}

#[test]
#[should_panic(expected = "the secret of a hashed key is empty")]
fn a_keyed_hash_needs_a_secret() {
    let _ = key::path_segment(0).hashed_with("");
}

#[test]
fn bounds_apply_after_prefix_and_hash() {
    let uri = |bytes: usize| format!("/{}", "x".repeat(bytes));
    let too_long = |bytes: usize| {
        Err(format!("a resource's name has at most 512 bytes, this one has {bytes}"))
    };

    let key = key::path_segment(0);

    assert!(name(&key, &get(&uri(512))).is_ok());
    assert_eq!(name(&key, &get(&uri(513))), too_long(513));
    assert_eq!(name(&key.prefixed("a:"), &get(&uri(511))), too_long(513));
    assert_eq!(name(&key.hashed(), &get(&uri(5_000))).unwrap().unwrap().len(), 64);
}

#[test]
fn all_names_are_prefixed_and_hashed() {
    let from_and_to = key::all((key::query("from"), key::query("to")));
    let request = get("/?from=b&to=a");

    assert_eq!(name(&from_and_to, &request), some("a + b"));
    assert_eq!(name(&from_and_to.clone().prefixed("x:"), &request), some("x:a + x:b"));

    let hashed = name(&from_and_to.clone().hashed(), &request).unwrap().unwrap();
    assert_eq!(hashed.len(), 64 + " + ".len() + 64);
    assert_eq!(name(&from_and_to, &get("/?from=a&to=a")), some("a"));

    let missing = error("the query has no parameter to");
    assert_eq!(name(&from_and_to, &get("/?from=a")), missing);
}

#[test]
fn unguarded_member_adds_no_name() {
    let q = |param: &'static str| key::query(param).optional();
    let key = key::all((q("a"), q("b"), q("c"), key::all((q("d"), q("e")))));
    assert_eq!(name(&key, &get("/?b=1")), some("1"));
    assert_eq!(name(&key, &get("/?c=3&a=1&e=5&d=4")), some("1 + 3 + 4 + 5"));
    assert_eq!(name(&key, &get("/")), Ok(None));
    let absent = key::all((key::query("a"), key::query("b"))).optional();
    assert_eq!(name(&absent, &get("/?a=1")), Ok(None), "a set is there or not");
}

#[test]
fn optional_key_is_missing_not_invalid() {
    let lone = |uri: &str| name(&key::query("id").optional().prefixed("x:").hashed(), &get(uri));

    assert_eq!(lone("/"), Ok(None));
    assert!(lone("/?id=1").unwrap().is_some());
    for uri in ["/?id=", "/?id=1&id=2", "/?id=%FF"] {
        assert!(lone(uri).is_err(), "{uri}");
    }
    assert_eq!(name(&key::path_segment(1).optional(), &get("/a")), Ok(None));
    assert!(name(&key::path_segment(1).optional(), &get("/a/")).is_err());
    assert_eq!(name(&key::header("x").optional(), &get("/")), Ok(None));
}

/// Routers answer HEAD by the handler of GET, so HEAD must not bypass the lock.
#[test]
fn head_is_locked_as_get_is() {
    let head = Request::head("/a").body(()).unwrap();
    assert_eq!(name(&key::path_segment(0).only([Method::GET]), &head), some("a"));
    assert_eq!(name(&key::path_segment(0).only([Method::HEAD]), &head), some("a"));
    assert_eq!(name(&key::path_segment(0).only([Method::HEAD]), &get("/a")), Ok(None));
    assert_eq!(name(&key::path_segment(0).only([Method::POST]), &head), Ok(None));
    assert_eq!(name(&key::method_and_path(), &head), some("GET /a"));
}

#[test]
fn filters_run_before_the_key() {
    let send =
        |method: Method, uri: &str| Request::builder().method(method).uri(uri).body(()).unwrap();
    let only = key::query("id").only([Method::POST, Method::PUT]);
    assert_eq!(name(&only, &send(Method::GET, "/")), Ok(None));
    assert_eq!(name(&only, &send(Method::PUT, "/?id=1")), some("1"));
    assert!(name(&only, &send(Method::POST, "/")).is_err());

    let when = key::query("id").prefixed("x:").when(|head| {
        head.uri().path() == "/paid" && head.method() == Method::POST && head.headers().is_empty()
    });
    assert_eq!(name(&when, &send(Method::POST, "/free")), Ok(None));
    assert_eq!(name(&when, &send(Method::POST, "/paid?id=1")), some("x:1"));
    assert!(name(&when, &send(Method::POST, "/paid")).is_err());
}
