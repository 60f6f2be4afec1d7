//! The deadline of a gRPC call.

use std::time::Duration;

use http::HeaderMap;

/// Reads `grpc-timeout`: up to eight digits and a unit. `None` if it is missing or malformed.
///
/// Source: *gRPC over HTTP2* (doc/PROTOCOL-HTTP2.md of grpc/grpc), section "Requests".
pub(crate) fn timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(count * 3600),
        "M" => Duration::from_secs(count * 60),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_digits_with_units_are_read() {
        let of = |text: &str| {
            timeout(&HeaderMap::from_iter([(
                http::HeaderName::from_static("grpc-timeout"),
                text.parse().unwrap(),
            )]))
        };

        assert_eq!(of("2H"), Some(Duration::from_secs(7_200)));
        assert_eq!(of("3M"), Some(Duration::from_secs(180)));
        assert_eq!(of("99999999S"), Some(Duration::from_secs(99_999_999)));
        assert_eq!(of("5m"), Some(Duration::from_millis(5)));
        assert_eq!(of("6u"), Some(Duration::from_micros(6)));
        assert_eq!(of("7n"), Some(Duration::from_nanos(7)));
        for text in ["", "S", "5", "5s", "+5S", "-5S", "123456789S", "5 S", "5SS"] {
            assert_eq!(of(text), None, "{text}");
        }
        assert_eq!(timeout(&HeaderMap::new()), None);
    }
}
