use std::fmt::Write;

use sha2::{Digest, Sha256};

use crate::{
    layer::KeyError,
    once::terms::IDEMPOTENCY as PREFIX,
    resource::{MAX_NAME_BYTES, Resource, ResourceError},
};

/// What the locks put before it.
const LOCK_PREFIX_BYTES: usize = "once:".len();

/// The name of a scope.
///
/// # Errors
///
/// If it is a set, which has neither an order nor duplicates: `[tenant, user]` would give (acme, bob)
/// and (bob, acme) the same keys.
pub(super) fn of_scope(scope: &Resource) -> Result<&str, KeyError> {
    match scope.shared_names() {
        [name] => Ok(name),
        _ => Err(KeyError::setup(
            "the scope of a layer for Idempotency-Key is one name, not a set of names: make one of \
             several with key::joined",
        )),
    }
}

/// The name of a key's record: [`IDEMPOTENCY`](PREFIX), the layer's name and a colon, then
///
/// * `//`, the host and `/`, unless all hosts share their keys;
/// * the length of the scope's name in bytes, a colon, the name and a colon;
/// * the key, as it is.
///
/// Two layers, hosts, scopes or keys never share one: a layer's name has no colon, a host no slash,
/// and each part tells where it ends. What is too long is hashed.
pub(super) fn name(
    layer: &str,
    host: Option<&str>,
    scope: &str,
    key: &Resource,
) -> Result<Resource, ResourceError> {
    let mut name = format!("{PREFIX}{layer}:");
    let parts_at = name.len();
    // Writing to a string does not fail.
    if let Some(host) = host {
        let _ = write!(name, "//{host}/");
    }
    let _ = write!(name, "{}:{scope}:", scope.len());
    for part in key.names() {
        name.push_str(part);
    }
    if name.len() > MAX_NAME_BYTES - LOCK_PREFIX_BYTES {
        let hash = Sha256::digest(name.as_bytes());
        name.truncate(parts_at);
        // No host and no length begins so.
        name.push_str("sha256:");
        for byte in hash {
            let _ = write!(name, "{byte:02x}");
        }
    }
    Resource::try_from(name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(host: Option<&str>, scope: &str, key: &str) -> String {
        name("pay", host, scope, &Resource::try_from(key).unwrap()).unwrap().to_string()
    }

    fn of(scope: &str, key: &str) -> String {
        at(None, scope, key)
    }

    #[test]
    fn it_stays_what_it_is_in_records_that_live_for_days() {
        assert_eq!(of("alice", "k"), "idempotency:pay:5:alice:k");
        assert_eq!(at(Some("a.example"), "alice", "k"), "idempotency:pay://a.example/5:alice:k");
        assert_eq!(at(Some(""), "alice", "k"), "idempotency:pay:///5:alice:k");
        let long = "x".repeat(512);
        // Computed apart from this code, by another implementation of SHA-256.
        let hash = "33429d145bfeac6c4797a758024937c193bbc535f901b1a326c404c7dc2a07e9";
        assert_eq!(of(&long, "k"), format!("idempotency:pay:sha256:{hash}"));
    }

    #[test]
    fn keys_do_not_pass_for_a_part_of_the_scope() {
        assert_ne!(of("a", "b:k"), of("a:b", "k"));
        assert_ne!(at(Some("5:808"), "a", "k"), of("808/1", "a:k"));
    }

    #[test]
    fn only_what_is_too_long_is_hashed() {
        let fits = "x".repeat(512 - "once:idempotency:pay:1:s:".len());
        assert_eq!(of("s", &fits), format!("idempotency:pay:1:s:{fits}"));
        let long = of("s", &format!("{fits}x"));
        assert!(long.starts_with("idempotency:pay:sha256:"), "{long}");
        assert_ne!(long, of("s", &format!("{fits}y")));
        assert_ne!(long, at(Some("s"), "s", &format!("{fits}x")));
    }

    #[test]
    fn sets_are_refused() {
        let error = of_scope(&Resource::new(["a", "b"]).unwrap()).unwrap_err();
        assert!(error.is_setup() && error.to_string().contains("key::joined"), "{error}");
    }

    type Parts = (Option<String>, String, String);

    /// Made of what separates the parts, so that many lists of parts give nearly the same text.
    fn parts() -> impl Strategy<Value = Parts> {
        let host = prop::option::of("[a1:]{0,3}");
        (host, "[a1:/]{1,3}", "(1:[a1]:)?[a1:/]{1,3}")
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn different_callers_and_keys_have_different_names(one in parts(), other in parts()) {
            let name = |(host, scope, key): &Parts| at(host.as_deref(), scope, key);
            prop_assert_eq!(name(&one) == name(&other), one == other);
        }
    }
}
