//! The key from `Idempotency-Key`.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName};

use super::{
    Key, RequestHead,
    head_sources::BLANK,
    names::Names,
    source::{NoKey, sealed::Find},
};

/// Maximum length of the value of `Idempotency-Key`, in bytes and without its quotes.
pub const MAX_IDEMPOTENCY_KEY_BYTES: usize = 255;

const HEADER: HeaderName = HeaderName::from_static("idempotency-key");

/// Takes the name from the header `Idempotency-Key`.
///
/// Its value is a string in double quotes, in which `\"` and `\\` are a quote and a backslash. As many
/// clients omit the quotes, a bare value of visible ASCII without `"`, `\`, `,` and `;` is accepted too. With
/// and without quotes the name is the same: the text inside, 1 to 255 bytes of printable ASCII.
///
/// A request with two values is rejected, whether in two lines or joined by a comma. So is one with
/// text after the closing quote, as this header has no parameters.
///
/// Clients choose the name. [Join](super::joined) it with the caller; otherwise two callers with
/// the same value share a record.
///
/// Sources: J. Jena, S. Dalal, *The Idempotency-Key HTTP Header Field*
/// (draft-ietf-httpapi-idempotency-key-header-07), section 2.1; M. Nottingham, P.-H. Kamp,
/// *Structured Field Values for HTTP* (RFC 9651), section 4.2.5.
///
/// ```
/// use tower_redlock::{key, layer::ResourceKey};
///
/// let key = key::idempotency_key();
/// for value in [r#""8e03978e-40d5""#, "8e03978e-40d5"] {
///     let request = http::Request::post("/").header("idempotency-key", value).body(())?;
///     assert_eq!(key.key(&request).unwrap().unwrap().to_string(), "8e03978e-40d5");
/// }
/// # Ok::<(), http::Error>(())
/// ```
pub const fn idempotency_key() -> Key<IdempotencyKey> {
    Key::new(IdempotencyKey(()))
}

/// Takes the name from `Idempotency-Key`. Created by [`idempotency_key`].
#[derive(Clone, Copy, Debug)]
pub struct IdempotencyKey(());

impl Find for IdempotencyKey {
    fn find<'r>(&self, head: &RequestHead<'r>) -> Result<Names<'r>, NoKey> {
        parse(head.headers()).map(Names::One)
    }
}

fn parse(headers: &HeaderMap) -> Result<Cow<'_, str>, NoKey> {
    let mut values = headers.get_all(HEADER).iter();
    let Some(value) = values.next() else { return Err(no_key(NoKey::missing, "is missing")) };
    if values.next().is_some() {
        return Err(no_key(NoKey::invalid, "is given more than once"));
    }
    let Some(value) = std::str::from_utf8(value.as_bytes()).ok().filter(|value| value.is_ascii())
    else {
        return Err(no_key(NoKey::invalid, "is not ASCII"));
    };
    let value = value.trim_matches(BLANK);
    let key = match value.strip_prefix('"') {
        Some(quoted) => unquoted(quoted).map_err(|fault| no_key(NoKey::invalid, fault))?,
        None if value.bytes().all(may_be_bare) => Cow::Borrowed(value),
        None => return Err(no_key(NoKey::invalid, "is not a string in double quotes")),
    };
    match key.len() {
        0 => Err(no_key(NoKey::invalid, "is empty")),
        1..=MAX_IDEMPOTENCY_KEY_BYTES => Ok(key),
        _ => Err(no_key(NoKey::invalid, "is longer than 255 bytes")),
    }
}

fn no_key(kind: impl Fn(String) -> NoKey, fault: &str) -> NoKey {
    kind(format!("the header {HEADER} {fault}"))
}

/// Returns whether a byte is visible and does not begin a string, an escape, parameters or another
/// value.
const fn may_be_bare(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b',' | b';')
}

/// Returns the text of a string. `quoted` begins after the opening quote.
fn unquoted(quoted: &str) -> Result<Cow<'_, str>, &'static str> {
    let end =
        |rest: &str| if rest.is_empty() { Ok(()) } else { Err("has text after its closing quote") };
    // The usual value, such as a UUID, has no escapes.
    let plain = quoted.bytes().take_while(|byte| *byte != b'\\' && is_printable(*byte));
    let (plain, rest) = quoted.split_at(plain.take_while(|byte| *byte != b'"').count());
    if let Some(rest) = rest.strip_prefix('"') {
        return end(rest).map(|()| Cow::Borrowed(plain));
    }
    let mut text = plain.to_owned();
    let mut chars = rest.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => return end(chars.as_str()).map(|()| Cow::Owned(text)),
            '\\' => match chars.next() {
                Some(escaped @ ('"' | '\\')) => text.push(escaped),
                _ => return Err("has a backslash before neither a quote nor a backslash"),
            },
            c if c.is_ascii() && is_printable(c as u8) => text.push(c),
            _ => return Err("has a control character"),
        }
    }
    Err("has no closing quote")
}

const fn is_printable(byte: u8) -> bool {
    matches!(byte, b' '..=b'~')
}
