//! The scope of keys, and the names of their records.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use crate::{
    layer::{KeyError, ResourceKey},
    once::terms::IDEMPOTENCY as PREFIX,
    resource::{Resource, ResourceError},
};

/// Length of the prefix of the lock's name.
const LOCK_PREFIX_BYTES: usize = "once:".len();

/// Returns the one name of a scope.
///
/// # Errors
///
/// If it is a set of names: sets have no order, so (acme, bob) and (bob, acme) would share their keys.
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
/// Different layers, hosts, scopes and keys have different names: a layer's name has no colon, a host no
/// slash, and each part has a marked end. A name that is too long is hashed.
pub(super) fn name(
    layer: &str,
    host: Option<&str>,
    scope: &str,
    key: &Resource,
) -> Result<Resource, ResourceError> {
    let mut name = format!("{PREFIX}{layer}:");
    let parts_at = name.len();
    // Writing to a string never fails.
    if let Some(host) = host {
        let _ = write!(name, "//{host}/");
    }
    let _ = write!(name, "{}:{scope}:", scope.len());
    for part in key.names() {
        name.push_str(part);
    }
    if name.len() > Resource::MAX_NAME_BYTES - LOCK_PREFIX_BYTES {
        let hash = Sha256::digest(name.as_bytes());
        name.truncate(parts_at);
        // Neither a host nor a length begins like this.
        let _ = write!(name, "sha256:{hash:x}");
    }
    Resource::try_from(name)
}

/// The scope of keys that all callers share: see [`Scope::none`].
#[derive(Clone, Copy, Debug)]
pub struct Scope(());

impl Scope {
    /// No scope: all callers share their keys, and **a client that sends the key of another, with the
    /// same request, gets the other's response**. For services with one caller, or with public responses.
    pub const fn none() -> Self {
        Self(())
    }
}

/// A name that no principal should have.
const NONE: &str = "(no scope)";

impl<Request> ResourceKey<Request> for Scope {
    fn key(&self, _: &Request) -> Result<Option<Resource>, KeyError> {
        Ok(Some(Resource::try_from(NONE)?))
    }
}

/// Implemented by nothing: the impl below makes the compiler show the message of [`ResourceKey`].
pub trait Scoped {}

impl<Request: Scoped> ResourceKey<Request> for Unscoped {
    fn key(&self, _: &Request) -> Result<Option<Resource>, KeyError> {
        Err(KeyError::setup("the layer has no scope"))
    }
}

/// A layer for `Idempotency-Key` without a scope. It becomes a `Layer` by
/// [`scope`](crate::OnceLayer::scope).
#[derive(Clone, Debug)]
pub struct Unscoped(pub(super) ());

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
    fn format_is_stable() {
        assert_eq!(of("alice", "k"), "idempotency:pay:5:alice:k");
        assert_eq!(at(Some("a.example"), "alice", "k"), "idempotency:pay://a.example/5:alice:k");
        assert_eq!(at(Some(""), "alice", "k"), "idempotency:pay:///5:alice:k");
        let long = "x".repeat(512);
        // Computed apart from this code, by another implementation of SHA-256.
        let hash = "33429d145bfeac6c4797a758024937c193bbc535f901b1a326c404c7dc2a07e9";
        assert_eq!(of(&long, "k"), format!("idempotency:pay:sha256:{hash}"));
    }

    #[test]
    fn key_never_reads_as_scope() {
        assert_ne!(of("a", "b:k"), of("a:b", "k"));
        assert_ne!(at(Some("5:808"), "a", "k"), of("808/1", "a:k"));
    }

    #[test]
    fn only_long_names_are_hashed() {
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
        fn different_parts_give_different_names(one in parts(), other in parts()) {
            let name = |(host, scope, key): &Parts| at(host.as_deref(), scope, key);
            prop_assert_eq!(name(&one) == name(&other), one == other);
        }
    }
}
