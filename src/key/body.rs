//! Reading the body for keys, and the errors of a body that a key can't read.

use http::header::CONTENT_ENCODING;

use super::{RequestHead, source::NoKey};

/// Returns the request's body, which was read and is not empty.
pub(super) fn read_body<'r>(head: &RequestHead<'r>, key: &str) -> Result<&'r [u8], NoKey> {
    let body = head.body().ok_or_else(|| {
        NoKey::misplaced(format!("the key {key} needs the request's body, which was not read"))
    })?;
    // Clients probe endpoints with requests without a body, so an empty body counts as a missing
    // key.
    if body.trim_ascii().is_empty() {
        return Err(NoKey::missing("the body is empty"));
    }
    Ok(body)
}

/// Returns the error of a body that has a content coding. Codings that can't be shown are left out.
pub(super) fn decode_first(head: &RequestHead<'_>) -> Option<NoKey> {
    let encoding = head.headers().get(CONTENT_ENCODING)?.to_str().ok()?.trim();
    let is_token = encoding.len() <= 32
        && encoding.bytes().all(|byte| byte.is_ascii_alphanumeric() || b", -".contains(&byte));
    (is_token && !encoding.eq_ignore_ascii_case("identity")).then(|| {
        NoKey::invalid(format!(
            "the body is encoded as {encoding}: a layer outside of the one with this key has to decode it, such as \
             tower-http's request decompression"
        ))
    })
}
