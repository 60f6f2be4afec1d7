//! The protocol of a connection, by its first bytes.

/// The first bytes of a connection over HTTP/2 (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[derive(Clone, Copy, Debug)]
pub(super) enum Protocol {
    /// The bytes so far are this many of the preface.
    Unknown {
        matching: usize,
    },
    Http1,
    /// Its frames do not begin requests by themselves.
    Http2,
}

impl Protocol {
    /// Returns the protocol before the first byte.
    pub(super) const fn new() -> Self {
        Self::Unknown { matching: 0 }
    }

    /// Returns the protocol after these bytes, too.
    pub(super) fn after(self, bytes: &[u8]) -> Self {
        let Self::Unknown { matching } = self else { return self };
        let expected = &PREFACE[matching..];
        let compared = expected.len().min(bytes.len());
        match () {
            () if bytes[..compared] != expected[..compared] => Self::Http1,
            () if compared == expected.len() => Self::Http2,
            () => Self::Unknown { matching: matching + compared },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_preface_is_http2() {
        let protocol = |parts: &[&[u8]]| {
            parts.iter().fold(Protocol::new(), |protocol, part| protocol.after(part))
        };
        let (begin, end) = PREFACE.split_at(3);

        assert!(matches!(protocol(&[PREFACE]), Protocol::Http2));
        assert!(matches!(protocol(&[begin, end, b"more"]), Protocol::Http2));
        assert!(matches!(protocol(&[begin]), Protocol::Unknown { matching: 3 }));
        for other in [&b"PRI /nodes HTTP/1.1\r\n"[..], b"PRI * HTTP/1.1\r\n", b"GET / HTTP/1.1\r\n"]
        {
            assert!(matches!(protocol(&[other]), Protocol::Http1));
            assert!(matches!(protocol(&[begin, &other[3..], end]), Protocol::Http1));
        }
    }
}
