use std::borrow::Cow;

use super::{
    Key, RequestHead,
    names::Names,
    source::{Miss, sealed::Find},
};

/// The method and the path name the resource: `POST /accounts/42`, without the query. HEAD is named
/// as GET is, as routers answer it by the handler of GET.
///
/// Paths whose decoded segments are equal are one name, however they are percent-encoded, so that
/// they are one where they are to the handlers: what may stand in a segment is written as it is
/// (letters, digits, `-._~!$&'()*+,;=:@`), everything else is encoded, and the hexadecimal digits
/// are upper-case. An encoded `/` stays encoded, and dots and empty segments stay. Behind axum's
/// nested routers it is the path that was sent (feature `axum`).
///
/// Source: T. Berners-Lee, R. Fielding, L. Masinter, *Uniform Resource Identifier (URI): Generic
/// Syntax* (RFC 3986), sections 3.3 (`pchar`) and 6.2.2. By that, `:` and `%3A` might be told apart;
/// routers don't.
///
/// ```
/// use tower_redlock::{key, layer::ResourceKey};
///
/// let key = key::method_and_path();
/// for path in ["/accounts/4%32%3a%2f?now", "/accounts/42:%2F"] {
///     let request = http::Request::post(path).body(())?;
///     assert_eq!(key.key(&request).unwrap().unwrap().to_string(), "POST /accounts/42:%2F");
/// }
/// # Ok::<(), http::Error>(())
/// ```
pub const fn method_and_path() -> Key<MethodAndPath> {
    Key::new(MethodAndPath(()))
}

/// Takes the name from the method and the path. Made by [`method_and_path`].
#[derive(Clone, Copy, Debug)]
pub struct MethodAndPath(());

impl Find for MethodAndPath {
    fn find<'r>(&self, head: &RequestHead<'r>) -> Result<Names<'r>, Miss> {
        let path = head.uri().path();
        if path.is_empty() {
            return Err(Miss::absent("the request has no path"));
        }
        let method = head.handled_as().as_str();
        let mut name = String::with_capacity(method.len() + 1 + path.len());
        name.push_str(method);
        name.push(' ');
        normalise(path, &mut name);
        Ok(Names::One(Cow::Owned(name)))
    }
}

/// Appends the one spelling that stands for all of a path's.
pub(super) fn normalise(path: &str, to: &mut String) {
    let mut rest = path.as_bytes();
    while let [byte, after @ ..] = rest {
        let escaped = if *byte == b'%' { escape(after) } else { None };
        let (byte, is_encoded) = (escaped.unwrap_or(*byte), escaped.is_some());
        rest = if is_encoded { &after[2..] } else { after };
        // A lone `%` is encoded too: it must not begin an escape with what is decoded behind it.
        if may_stand(byte) || (!is_encoded && byte == b'/') {
            to.push(char::from(byte));
        } else {
            let digit = |nibble: u8| char::from(b"0123456789ABCDEF"[usize::from(nibble)]);
            to.extend(['%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
}

/// The byte that two hexadecimal digits stand for.
fn escape(digits: &[u8]) -> Option<u8> {
    let digit = |i: usize| char::from(*digits.get(i)?).to_digit(16);
    u8::try_from(digit(0)? << 4 | digit(1)?).ok()
}

/// What a segment holds without being encoded: `pchar`.
fn may_stand(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte)
}
