//! The 1,024 stripes of names that share a fence, so that a node's memory does not grow with the names.

use crate::resource::Resource;

/// Number of stripes. Part of the format on the servers, so it must not change.
pub(crate) const STRIPES: usize = 1024;

/// Returns the stripes of a resource's names, perhaps with duplicates.
pub(crate) fn stripes(resource: &Resource) -> impl Iterator<Item = usize> {
    resource.names().map(stripe)
}

/// Returns the 64-bit FNV-1a hash, which has to be the same in all clients.
///
/// Source: G. Fowler, L. C. Noll, K.-P. Vo, *The FNV Non-Cryptographic Hash Algorithm*
/// (draft-eastlake-fnv).
pub(crate) fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Returns the stripe of a name.
pub(crate) fn stripe(name: &str) -> usize {
    let hash = fnv(name);
    let folded = hash ^ (hash >> 32);
    usize::try_from(folded % STRIPES as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_do_not_change() {
        // Computed by another implementation of the same formula.
        let known = ["a", "invoice:42", "nightly-report"].map(stripe);
        assert_eq!(known, [192, 253, 909]);
    }

    #[test]
    fn names_spread_over_stripes() {
        let mut counts = vec![0_u32; STRIPES];
        for i in 0..STRIPES * 16 {
            counts[stripe(&format!("account:{i}"))] += 1;
        }
        assert!(counts.iter().all(|count| (1..=64).contains(count)), "{counts:?}");
    }
}
