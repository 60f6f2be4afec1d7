use std::fmt::Write;

use sha2::{Digest, Sha256};

use crate::{
    once::terms::IDEMPOTENCY as PREFIX,
    resource::{MAX_NAME_BYTES, Resource, ResourceError},
};

/// What the locks put before it.
const LOCK_PREFIX_BYTES: usize = "once:".len();

/// The name of a key's record. Two layers, scopes or keys never share one: a layer's name has no
/// colon, each name of the scope is preceded by its length, and what is too long is hashed.
pub(super) fn name(
    layer: &str,
    scope: &Resource,
    key: &Resource,
) -> Result<Resource, ResourceError> {
    let mut name = format!("{PREFIX}{layer}:");
    let scope_at = name.len();
    for part in scope.names() {
        // Writing to a string does not fail.
        let _ = write!(name, "{}:{part}:", part.len());
    }
    for part in key.names() {
        name.push_str(part);
    }
    if name.len() > MAX_NAME_BYTES - LOCK_PREFIX_BYTES {
        let hash = Sha256::digest(name.as_bytes());
        name.truncate(scope_at);
        // No length begins so.
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

    fn of(scope: &[&str], key: &str) -> String {
        let scope = Resource::new(scope.iter().copied()).unwrap();
        name("pay", &scope, &Resource::try_from(key).unwrap()).unwrap().to_string()
    }

    #[test]
    fn it_stays_what_it_is_in_records_that_live_for_days() {
        assert_eq!(of(&["alice"], "k"), "idempotency:pay:5:alice:k");
        assert_eq!(of(&["b", "a"], "k"), "idempotency:pay:1:a:1:b:k");
        let long = "x".repeat(512);
        // Computed apart from this code, by another implementation of SHA-256.
        let hash = "33429d145bfeac6c4797a758024937c193bbc535f901b1a326c404c7dc2a07e9";
        assert_eq!(of(&[&long], "k"), format!("idempotency:pay:sha256:{hash}"));
    }

    #[test]
    fn only_what_is_too_long_is_hashed() {
        let fits = "x".repeat(512 - "once:idempotency:pay:1:s:".len());
        assert_eq!(of(&["s"], &fits), format!("idempotency:pay:1:s:{fits}"));
        let long = of(&["s"], &format!("{fits}x"));
        assert!(long.starts_with("idempotency:pay:sha256:"), "{long}");
        assert_ne!(long, of(&["s"], &format!("{fits}y")));
    }

    proptest! {
        #[test]
        fn different_callers_and_keys_have_different_names(
            one in (prop::collection::btree_set("[a1:]{1,4}", 1..3), "[a1:]{1,4}"),
            other in (prop::collection::btree_set("[a1:]{1,4}", 1..3), "[a1:]{1,4}"),
        ) {
            let name = |(scope, key): &(std::collections::BTreeSet<String>, String)| {
                of(&scope.iter().map(String::as_str).collect::<Vec<_>>(), key)
            };
            prop_assert_eq!(name(&one) == name(&other), one == other);
        }
    }
}
