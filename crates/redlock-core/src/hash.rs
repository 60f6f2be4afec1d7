//! Hashes that are the same in all clients.

/// Returns the 64-bit FNV-1a hash, which has to be the same in all clients.
///
/// Source: G. Fowler, L. C. Noll, K.-P. Vo, *The FNV Non-Cryptographic Hash Algorithm*
/// (draft-eastlake-fnv).
pub fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The step of `SplitMix64`.
pub const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the next number of `SplitMix64` in the state `seed`.
///
/// Source: G. L. Steele, D. Lea, C. H. Flood, *Fast Splittable Pseudorandom Number Generators*
/// (2014), with the constants of D. Stafford's variant 13.
pub const fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(GOLDEN);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mix_matches_the_published_generator() {
        // The first number of the published generator with the seed 0.
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
    }
}
