//! Many requests at once.

use std::collections::HashMap;

use futures_util::future::join_all;
use rustix::process::{Resource, getrlimit, setrlimit};

use super::site::{Site, patient, soon};

const REQUESTS: usize = 500;
const KEYS: usize = 10;

/// Both ends of each connection are in this process.
fn allow_descriptors() {
    let mut limit = getrlimit(Resource::Nofile);
    let needed = 4 * REQUESTS as u64;
    if limit.current.is_some_and(|current| current < needed) {
        limit.current = limit.maximum.map_or(Some(needed), |maximum| Some(maximum.min(needed)));
        setrlimit(Resource::Nofile, limit).expect("within the hard limit");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_never_overlap_on_a_key() {
    allow_descriptors();
    let site = Site::open(2, patient).await;
    let requests = (0..REQUESTS).map(|i| {
        let client = &site.clients[i % site.clients.len()];
        async move { client.post(&format!("/token/key-{}", i / 2 % KEYS)).await }
    });
    let answers = soon("all answers", join_all(requests)).await;

    assert_eq!(site.shared.log.overlaps(), 0);
    assert_eq!(site.shared.log.entered(), REQUESTS);
    let mut statuses = HashMap::<u16, usize>::new();
    for answer in answers {
        *statuses.entry(answer.status.as_u16()).or_default() += 1;
    }
    assert_eq!(statuses, HashMap::from([(200, REQUESTS)]));
    for key in 0..KEYS {
        let tokens = site.shared.log.tokens(&format!("key-{key}"));
        assert_eq!(tokens.len(), REQUESTS / KEYS);
        assert!(tokens.is_sorted_by(|a, b| a < b), "in the order of holding: {tokens:?}");
    }
    site.all_keys_gone().await;
}
