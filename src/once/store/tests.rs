//! The memory store, against a model.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt;
use proptest::{collection::vec, prelude::*};

use super::{MemoryStore, ResponseStore, StoreError};
use crate::{
    hand_clock::HandClock,
    once::{StoredHeaders, StoredResponse},
    token::FencingToken,
};

fn response(body: u64) -> Arc<StoredResponse> {
    let (parts, body) = http::Response::new(body.to_string().into()).into_parts();
    Arc::new(StoredResponse::new(&parts, body, &StoredHeaders::default()))
}

fn put(store: &MemoryStore, key: &str, body: u64, seconds: u64, token: u64) -> bool {
    let (retain, token) = (Duration::from_secs(seconds), FencingToken::new(token));
    match store.put(key, response(body), retain, token).now_or_never().unwrap() {
        Ok(()) => true,
        Err(StoreError::Stale) => false,
        Err(error) => panic!("{error}"),
    }
}

/// The token, and the number that the body is.
fn get(store: &MemoryStore, key: &str) -> Option<(u64, u64)> {
    let stored = store.get(key).now_or_never().unwrap().unwrap()?;
    let body = std::str::from_utf8(stored.response.body()).unwrap();
    Some((stored.token.get(), body.parse().unwrap()))
}

#[test]
fn response_expires() {
    let clock = HandClock::new();
    let store = MemoryStore::new().clock(clock.clone());
    assert!(store.is_empty());
    assert!(put(&store, "a", 1, 10, 5) && !store.is_empty());
    assert!(put(&store.clone(), "never", 2, u64::MAX, 5), "clones are one store");
    clock.advance(Duration::from_secs(9));
    assert_eq!(get(&store, "a"), Some((5, 1)));
    clock.advance(Duration::from_secs(1));
    assert_eq!(get(&store, "a"), None);
    assert!(put(&store, "b", 3, 10, 1));
    assert_eq!(store.len(), 2, "what is over takes no memory");
    assert!(put(&store, "a", 4, 10, 4), "what is over bars no older token");
    assert_eq!(get(&store, "never"), Some((5, 2)));
}

#[test]
fn capacity_evicts_the_next_to_expire() {
    let store = MemoryStore::with_capacity(2).clock(HandClock::new());
    assert!(put(&store, "long", 1, 30, 1));
    assert!(put(&store, "short", 2, 10, 1));
    assert!(put(&store, "longer", 3, 40, 1));
    assert_eq!(get(&store, "short"), None);
    assert!(put(&store, "long", 4, 50, 1), "its time begins anew");
    assert!(put(&store, "more", 5, 45, 1));
    assert_eq!(get(&store, "longer"), None);
    assert_eq!((get(&store, "long"), get(&store, "more")), (Some((1, 4)), Some((1, 5))));
    let none = MemoryStore::with_capacity(0);
    assert!(put(&none, "a", 1, 10, 1) && none.is_empty());
}

fn put_bytes(store: &MemoryStore, key: &str, bytes: usize) -> bool {
    let (parts, ()) = http::Response::new(()).into_parts();
    let response = StoredResponse::new(&parts, vec![0; bytes].into(), &StoredHeaders::default());
    let (retain, token) = (Duration::from_secs(9), FencingToken::new(1));
    store.put(key, Arc::new(response), retain, token).now_or_never().unwrap().is_ok()
}

fn has(store: &MemoryStore, key: &str) -> bool {
    store.get(key).now_or_never().unwrap().unwrap().is_some()
}

#[test]
fn bytes_evict_the_oldest() {
    let store = MemoryStore::new().max_bytes(10_000).clock(HandClock::new());
    for key in ["a", "b", "c"] {
        assert!(put_bytes(&store, key, 3_000));
    }
    assert!(has(&store, "a") && store.bytes() < 10_000);

    assert!(put_bytes(&store, "d", 5_000));

    assert_eq!(["a", "b", "c", "d"].map(|key| has(&store, key)), [false, false, true, true]);
    assert!(put_bytes(&store, "d", 1), "it replaces the larger one");
    assert!((3_000..4_000).contains(&store.bytes()), "{store:?}");
}

#[test]
fn response_above_all_bytes_evicts_no_other() {
    let store = MemoryStore::new().max_bytes(10_000).clock(HandClock::new());
    assert!(put_bytes(&store, "a", 3_000));

    assert!(!put_bytes(&store, "b", 10_000));

    assert!(has(&store, "a") && !has(&store, "b"));
}

#[test]
fn entries_count_without_a_body() {
    let store = MemoryStore::with_capacity(usize::MAX).max_bytes(10_000).clock(HandClock::new());

    for key in 0..1_000 {
        assert!(put_bytes(&store, &key.to_string(), 0));
    }

    assert!((30..40).contains(&store.len()), "{store:?}");
    assert!(has(&store, "999") && !has(&store, "0"));
}

#[derive(Clone, Debug)]
enum Step {
    Put { key: u64, token: u64, retain: u64 },
    Wait(u64),
}

#[derive(Debug)]
struct Known {
    key: u64,
    token: u64,
    body: u64,
    end: u64,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..6_u64, 0..4_u64, 0..20_u64)
            .prop_map(|(key, token, retain)| Step::Put { key, token, retain }),
        1 => (1..8_u64).prop_map(Step::Wait),
    ]
}

proptest! {
    #[test]
    fn store_matches_linear_model(
        steps in vec(step(), 0..60),
        capacity in 1..5_usize,
    ) {
        let clock = HandClock::new();
        let store = MemoryStore::with_capacity(capacity).clock(clock.clone());
        let (mut known, mut now) = (Vec::<Known>::new(), 0);
        for (body, step) in (0..).zip(steps) {
            match step {
                Step::Wait(seconds) => {
                    now += seconds;
                    clock.advance(Duration::from_secs(seconds));
                }
                Step::Put { key, token, retain } => {
                    known.retain(|entry| entry.end > now);
                    let stale = known.iter().any(|entry| entry.key == key && entry.token > token);
                    prop_assert_eq!(put(&store, &key.to_string(), body, retain, token), !stale);
                    if !stale {
                        known.retain(|entry| entry.key != key);
                        known.push(Known { key, token, body, end: now + retain });
                    }
                    if known.len() > capacity {
                        // Of several that end at once, the one that was put first.
                        let ends = known.iter().enumerate().map(|(i, entry)| (entry.end, i));
                        known.remove(ends.min().unwrap().1);
                    }
                    prop_assert_eq!(store.len(), known.len());
                }
            }
            for key in 0..6 {
                let entry = known.iter().find(|entry| entry.key == key && entry.end > now);
                let expected = entry.map(|entry| (entry.token, entry.body));
                prop_assert_eq!(get(&store, &key.to_string()), expected);
            }
        }
    }
}
