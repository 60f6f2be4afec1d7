//! The 1,024 stripes of names that share a fence, so that a node's memory does not grow with the
//! names.

use crate::hash::fnv;

/// Number of stripes. Part of the format on the servers, so it must not change.
pub const STRIPES: usize = 1024;

/// Returns the stripe of a name.
pub(crate) fn stripe(name: &str) -> u16 {
    let hash = fnv(name);
    let folded = hash ^ (hash >> 32);
    u16::try_from(folded % STRIPES as u64).unwrap_or(0)
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
            counts[usize::from(stripe(&format!("account:{i}")))] += 1;
        }
        assert!(counts.iter().all(|count| (1..=64).contains(count)), "{counts:?}");
    }
}
