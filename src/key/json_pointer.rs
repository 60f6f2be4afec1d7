//! Keys from a JSON body.

use std::{borrow::Cow, sync::Arc};

use super::{
    Key, RequestHead,
    body::{decode_first, read_body},
    json_walk::{Found, walk},
    names::Names,
    source::{NoKey, sealed::Find},
};

/// Takes the name from a value inside of a JSON body: a string that is not empty, or an integer.
///
/// `/id` is the member `id` of the outermost object, `/data/0/id` is the member `id` of the first
/// element of the array `data`, and the empty pointer is the whole document. In a member's name,
/// `~1` stands for `/` and `~0` for `~`. The string `"42"` and the integer `42` are one name.
/// Integers from −2⁶³ to 2⁶⁴−1 are accepted. Others, and numbers with a fraction or an exponent,
/// are rejected: they would lose digits, so that two events would share a name.
///
/// A request with a value of another kind, or with a body that is not JSON, is rejected. So is a
/// request with a duplicate member on the path, as other readers may take the other value. `null`
/// and an empty body count as missing, which [`optional()`](Key::optional) lets pass. The rest of
/// the body is parsed and not stored.
///
/// It needs the body, so a layer that reads only heads does not accept it:
///
/// ```compile_fail,E0277
/// use tower_redlock::{key, layer::ResourceKey};
///
/// fn takes(_: impl ResourceKey<http::Request<()>>) {}
/// takes(key::json_pointer("/id"));
/// ```
///
/// Source: P. Bryan, K. Zyp, M. Nottingham, *JavaScript Object Notation (JSON) Pointer* (RFC 6901).
///
/// # Panics
///
/// If `pointer` is not empty and does not begin with `/`, or has a `~` without `0` or `1` after it.
///
/// ```
/// use tower_redlock::key::{self, BodyKey, RequestHead};
///
/// let key = key::json_pointer("/id").prefixed("stripe:");
/// let request = http::Request::post("/stripe").body(())?;
/// let head = RequestHead::from(&request);
/// let resource = key.body_key(&head, br#"{"id": "evt_1", "type": "charge.failed"}"#).unwrap();
/// assert_eq!(resource.unwrap().to_string(), "stripe:evt_1");
/// assert_eq!(key.body_key(&head, b"{}").unwrap_err().to_string(), "the body has no value at /id");
/// # Ok::<(), http::Error>(())
/// ```
pub fn json_pointer(pointer: impl Into<Arc<str>>) -> Key<JsonPointer> {
    let pointer = pointer.into();
    let steps = pointer_steps(&pointer);
    Key::new(JsonPointer { pointer, steps })
}

/// Takes the name from a JSON body. Created by [`json_pointer`].
#[derive(Clone, Debug)]
pub struct JsonPointer {
    pointer: Arc<str>,
    steps: Arc<[String]>,
}

/// # Panics
///
/// If `pointer` is not a valid pointer.
pub(crate) fn pointer_steps(pointer: &str) -> Arc<[String]> {
    steps(pointer).unwrap_or_else(|why| panic!("the JSON pointer {pointer:?} {why}"))
}

fn steps(pointer: &str) -> Result<Arc<[String]>, &'static str> {
    if pointer.is_empty() {
        return Ok(Arc::default());
    }
    let path = pointer.strip_prefix('/').ok_or("does not begin with /")?;
    path.split('/').map(unescaped).collect()
}

fn unescaped(step: &str) -> Result<String, &'static str> {
    let mut parts = step.split('~');
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (escaped, rest) = match part.as_bytes().first() {
            Some(b'0') => ('~', &part[1..]),
            Some(b'1') => ('/', &part[1..]),
            _ => return Err("has a ~ that is followed by neither 0 nor 1"),
        };
        whole.push(escaped);
        whole.push_str(rest);
    }
    Ok(whole)
}

impl Find for JsonPointer {
    fn find<'r>(&self, head: &RequestHead<'r>) -> Result<Names<'r>, NoKey> {
        let place = self.place();
        let body = read_body(head, place)?;
        match walk(body, &self.steps) {
            Ok(Found::Name(name)) if name.is_empty() => {
                Err(NoKey::invalid(format!("the body has an empty string at {place}")))
            }
            Ok(Found::Name(name)) => Ok(Names::One(Cow::Owned(name))),
            Ok(Found::Nothing) => Err(NoKey::missing(format!("the body has no value at {place}"))),
            Ok(Found::Twice) => {
                Err(NoKey::invalid(format!("the body has more than one value at {place}")))
            }
            Ok(Found::Other) => Err(NoKey::invalid(format!(
                "the value at {place} in the body is neither a string nor an integer"
            ))),
            Err(error) => Err(decode_first(head).unwrap_or_else(|| NoKey::invalid(error))),
        }
    }
}

impl JsonPointer {
    fn place(&self) -> &str {
        if self.pointer.is_empty() { "its root" } else { &self.pointer }
    }
}
