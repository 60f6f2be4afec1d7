//! Hash slots of a Redis Cluster (the Redis Cluster specification, "Key distribution model").

/// Number of hash slots.
const SLOTS: u16 = 16_384;

/// Returns the part of a key that decides its slot: the text between its first `{` and the next
/// `}`, unless that is empty.
pub(crate) fn hash_tag(key: &str) -> Option<&str> {
    let (_, rest) = key.split_once('{')?;
    rest.split_once('}').map(|(tag, _)| tag).filter(|tag| !tag.is_empty())
}

/// Returns the slot of a key.
pub(crate) fn slot_of(key: &str) -> u16 {
    crc16(hash_tag(key).unwrap_or(key).as_bytes()) % SLOTS
}

/// CRC-16/XMODEM: the polynomial 0x1021 without reflection, from 0.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc: u16, _| {
            let shifted = crc << 1;
            if crc & 0x8000 == 0 { shifted } else { shifted ^ 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value of CRC-16/XMODEM, and the answers of `CLUSTER KEYSLOT`.
    #[test]
    fn slots_match_redis() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        for (key, slot) in [("foo", 12_182), ("bar", 5_061), ("{foo}:lock:a", 12_182), ("", 0)] {
            assert_eq!(slot_of(key), slot, "{key}");
        }
    }

    #[test]
    fn only_first_braces_count() {
        for (key, tag) in [
            ("{a}:b", Some("a")),
            ("x{a}{b}", Some("a")),
            ("{{a}}", Some("{a")),
            ("{}{a}", None),
            ("{a", None),
            ("a}", None),
        ] {
            assert_eq!(hash_tag(key), tag, "{key}");
        }
    }
}
