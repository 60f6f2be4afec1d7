//! Fuzz target of the headers that layers read in addition to keys.

use http::{HeaderName, HeaderValue, Request};

use crate::{
    fencing::{DEFAULT_HEADER, TokenSource},
    layer::grpc::timeout::timeout,
    once::http::fuzzing::of_caller,
};

/// Reads bytes as a fencing token, a `grpc-timeout`, a `Host` and an `Accept-Encoding`.
pub fn headers(data: &[u8]) {
    let Ok(value) = HeaderValue::from_bytes(data) else { return };
    let with = |name: HeaderName| {
        Request::builder().header(name, value.clone()).body(()).expect("a request")
    };
    if let Ok(token) = DEFAULT_HEADER.token(&with(DEFAULT_HEADER)) {
        let digits = std::str::from_utf8(data).expect("digits").trim_start_matches('0');
        let read = token.get().to_string();
        assert_eq!(read.trim_start_matches('0'), digits);
    }
    let name = HeaderName::from_static("grpc-timeout");
    if let Some(timeout) = timeout(with(name).headers()) {
        let count: u32 = std::str::from_utf8(&data[..data.len() - 1])
            .expect("digits")
            .parse()
            .expect("a number");
        assert_eq!(timeout.is_zero(), count == 0);
        assert!(timeout.as_secs() <= 99_999_999 * 3_600);
    }
    of_caller(&value);
}
