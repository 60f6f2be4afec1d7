//! Fences are kept in 1,024 stripes, so that a node's memory does not grow with the names.
//!
//! Resources that share a stripe share its fence: their tokens still only grow, with larger steps.

use crate::resource::Resource;

/// How many stripes there are; part of what is stored on the servers, and never to be changed.
pub(crate) const STRIPES: usize = 1024;

/// The stripes of a resource's names; the same stripe may come twice.
pub(crate) fn stripes(resource: &Resource) -> impl Iterator<Item = usize> {
    resource.names().map(stripe)
}

/// FNV-1a of 64 bits. All clients must compute the same one.
///
/// Source: G. Fowler, L. C. Noll, K.-P. Vo, *The FNV Non-Cryptographic Hash Algorithm*
/// (draft-eastlake-fnv).
pub(crate) fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The hash, folded to the number of stripes.
pub(crate) fn stripe(name: &str) -> usize {
    let hash = fnv(name);
    let folded = hash ^ (hash >> 32);
    usize::try_from(folded % STRIPES as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_are_fixed_for_ever() {
        // Computed by another implementation of the same formula.
        let known = ["a", "invoice:42", "nightly-report"].map(stripe);
        assert_eq!(known, [192, 253, 909]);
    }

    #[test]
    fn names_spread_over_the_stripes() {
        let mut counts = vec![0_u32; STRIPES];
        for i in 0..STRIPES * 16 {
            counts[stripe(&format!("account:{i}"))] += 1;
        }
        assert!(counts.iter().all(|count| (1..=64).contains(count)), "{counts:?}");
    }
}
