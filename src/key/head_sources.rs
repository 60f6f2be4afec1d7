//! Keys from the head of a request.

use std::{any::type_name, borrow::Cow, fmt, marker::PhantomData, sync::Arc};

use http::HeaderName;

use super::{
    Key, RequestHead,
    decode::{FormValue, form_value, percent_decoded},
    names::Names,
    source::{NoKey, sealed::Find},
};
use crate::{layer::IntoKey, resource::Resource};

/// Takes the name from the value of a header, which is present once, not empty, and visible ASCII or UTF-8.
/// White space around it is not part of the name.
///
/// # Panics
///
/// If `name` is not a valid header name.
///
/// ```
/// use tower_redlock::{key, layer::ResourceKey};
///
/// let key = key::header("x-account");
/// let request = http::Request::get("/").header("x-account", "42").body(())?;
/// assert_eq!(key.key(&request).unwrap().unwrap().to_string(), "42");
/// let error = key.key(&http::Request::new(())).unwrap_err();
/// assert_eq!(error.to_string(), "the header x-account is missing");
/// # Ok::<(), http::Error>(())
/// ```
pub fn header<N>(name: N) -> Key<Header>
where
    N: TryInto<HeaderName>,
    N::Error: fmt::Debug,
{
    Key::new(Header { name: name.try_into().expect("a header's name") })
}

/// Takes the name from a header. Created by [`header`].
#[derive(Clone, Debug)]
pub struct Header {
    name: HeaderName,
}

impl Find for Header {
    fn find<'r>(&self, head: &RequestHead<'r>) -> Result<Names<'r>, NoKey> {
        let name = &self.name;
        let mut values = head.headers().get_all(name).iter();
        let Some(value) = values.next() else {
            return Err(NoKey::missing(format!("the header {name} is missing")));
        };
        if values.next().is_some() {
            return Err(NoKey::invalid(format!("the header {name} is given more than once")));
        }
        let text = std::str::from_utf8(value.as_bytes()).ok().map(|text| text.trim_matches(BLANK));
        match text {
            Some("") => Err(NoKey::invalid(format!("the header {name} is empty"))),
            Some(text) if !text.contains(char::is_control) => Ok(Names::One(Cow::Borrowed(text))),
            _ => Err(NoKey::invalid(format!("the header {name} is not visible ASCII or UTF-8"))),
        }
    }
}

/// White space that is allowed around a value (RFC 9110, section 5.5).
pub(super) const BLANK: [char; 2] = [' ', '\t'];

/// Takes the name from a segment of the path: in `/accounts/42`, segment 0 is `accounts` and segment 1 is
/// `42`.
///
/// The segment is percent-decoded exactly once, as by axum's `Path`, so `%34%32` and `42` are one
/// name. After axum's nested routers, the index counts segments of the path as it was sent (feature
/// `axum`). The name is text: for handlers that take a number, add [`parsed`](Key::parsed). An
/// empty segment is an error; `optional()` lets requests with a shorter path pass.
///
/// ```
/// use tower_redlock::{key, layer::ResourceKey};
///
/// let key = key::path_segment(1);
/// for path in ["/accounts/42", "/accounts/%34%32", "/accounts/42/withdraw?now"] {
///     let request = http::Request::get(path).body(())?;
///     assert_eq!(key.key(&request).unwrap().unwrap().to_string(), "42");
/// }
/// assert!(key.key(&http::Request::get("/accounts/").body(())?).is_err());
/// # Ok::<(), http::Error>(())
/// ```
pub const fn path_segment(index: usize) -> Key<PathSegment> {
    Key::new(PathSegment { index })
}

/// Takes the name from a segment of the path. Created by [`path_segment`].
#[derive(Clone, Copy, Debug)]
pub struct PathSegment {
    index: usize,
}

impl Find for PathSegment {
    fn find<'r>(&self, head: &RequestHead<'r>) -> Result<Names<'r>, NoKey> {
        let index = self.index;
        let segments = head.uri().path().strip_prefix('/').map(|path| path.split('/'));
        let Some(segment) = segments.and_then(|mut segments| segments.nth(index)) else {
            return Err(NoKey::missing(format!("the path has no segment {index} (from 0)")));
        };
        if segment.is_empty() {
            return Err(NoKey::invalid(format!("segment {index} of the path (from 0) is empty")));
        }
        match percent_decoded(segment) {
            Some(name) => Ok(Names::One(name)),
            None => {
                Err(NoKey::invalid(format!("segment {index} of the path (from 0) is not UTF-8")))
            }
        }
    }
}

/// Takes the name from a parameter of the query, which is present once, and not empty. Names and values are
/// decoded like forms: `+` is a space, and percent-encoding is decoded once.
///
/// ```
/// use tower_redlock::{key, layer::ResourceKey};
///
/// let key = key::query("account");
/// let request = http::Request::get("/pay?sum=3&account=a+b%2B").body(())?;
/// assert_eq!(key.key(&request).unwrap().unwrap().to_string(), "a b+");
/// let twice = http::Request::get("/pay?account=1&account=2").body(())?;
/// assert!(key.key(&twice).is_err());
/// # Ok::<(), http::Error>(())
/// ```
pub fn query(name: impl Into<Arc<str>>) -> Key<Query> {
    Key::new(Query { name: name.into() })
}

/// Takes the name from a parameter of the query. Created by [`query`].
#[derive(Clone, Debug)]
pub struct Query {
    name: Arc<str>,
}

impl Find for Query {
    fn find<'r>(&self, head: &RequestHead<'r>) -> Result<Names<'r>, NoKey> {
        let name = &*self.name;
        match form_value(head.uri().query().unwrap_or_default(), name) {
            FormValue::Absent => Err(NoKey::missing(format!("the query has no parameter {name}"))),
            FormValue::Twice => {
                Err(NoKey::invalid(format!("the query has the parameter {name} more than once")))
            }
            FormValue::Invalid => {
                Err(NoKey::invalid(format!("the query's parameter {name} is not UTF-8")))
            }
            FormValue::One(value) if value.is_empty() => {
                Err(NoKey::invalid(format!("the query's parameter {name} is empty")))
            }
            FormValue::One(value) => Ok(Names::One(value)),
        }
    }
}

/// Gives every request the same name, so that all of them run one at a time.
///
/// # Panics
///
/// If `name` is not a valid [`Resource`], for example if it is empty.
///
/// ```
/// use tower_redlock::{key, layer::ResourceKey};
///
/// let key = key::constant("export");
/// for path in ["/exports", "/exports/42"] {
///     let request = http::Request::post(path).body(())?;
///     assert_eq!(key.key(&request).unwrap().unwrap().to_string(), "export");
/// }
/// # Ok::<(), http::Error>(())
/// ```
#[track_caller]
pub fn constant<N>(name: N) -> Key<Constant>
where
    N: TryInto<Resource>,
    N::Error: fmt::Display,
{
    match name.try_into() {
        Ok(resource) => Key::new(Constant { resource }),
        Err(error) => panic!("key::constant: {error}"),
    }
}

/// Gives every request the same name. Created by [`constant`].
#[derive(Clone, Debug)]
pub struct Constant {
    resource: Resource,
}

impl Find for Constant {
    fn find<'r>(&self, _: &RequestHead<'r>) -> Result<Names<'r>, NoKey> {
        Ok(Names::from(self.resource.clone()))
    }
}

/// Takes the name from the method and the path: `POST /accounts/42`, without the query. HEAD
/// requests get the name of GET requests, as routers answer them by the handler of GET.
///
/// Paths whose decoded segments are equal are one name, regardless of their percent-encoding, as
/// they are equal to the handlers. Characters that are allowed in a segment are written unencoded
/// (letters, digits, `-._~!$&'()*+,;=:@`), all others are encoded, and hexadecimal digits are
/// upper-case. An encoded `/` stays encoded; dots and empty segments stay. After axum's nested
/// routers, the path is the one that was sent (feature `axum`).
///
/// Source: T. Berners-Lee, R. Fielding, L. Masinter, *Uniform Resource Identifier (URI): Generic
/// Syntax* (RFC 3986), sections 3.3 (`pchar`) and 6.2.2. The RFC allows `:` and `%3A` to differ,
/// but routers treat them as equal.
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

/// Takes the name from the method and the path. Created by [`method_and_path`].
#[derive(Clone, Copy, Debug)]
pub struct MethodAndPath(());

impl Find for MethodAndPath {
    fn find<'r>(&self, head: &RequestHead<'r>) -> Result<Names<'r>, NoKey> {
        let path = head.uri().path();
        if path.is_empty() {
            return Err(NoKey::missing("the request has no path"));
        }
        let method = head.handled_as().as_str();
        let mut name = String::with_capacity(method.len() + 1 + path.len());
        name.push_str(method);
        name.push(' ');
        normalise(path, &mut name);
        Ok(Names::One(Cow::Owned(name)))
    }
}

/// Appends the normal form of a path.
pub(super) fn normalise(path: &str, to: &mut String) {
    let mut rest = path.as_bytes();
    while let [byte, after @ ..] = rest {
        let escaped = if *byte == b'%' { escape(after) } else { None };
        let (byte, is_encoded) = (escaped.unwrap_or(*byte), escaped.is_some());
        rest = if is_encoded { &after[2..] } else { after };
        // A lone `%` is encoded too, so that it does not form an escape with the decoded text after
        // it.
        if may_stand(byte) || (!is_encoded && byte == b'/') {
            to.push(char::from(byte));
        } else {
            let digit = |nibble: u8| char::from(b"0123456789ABCDEF"[usize::from(nibble)]);
            to.extend(['%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
}

/// Returns the byte for two hexadecimal digits.
fn escape(digits: &[u8]) -> Option<u8> {
    let digit = |i: usize| char::from(*digits.get(i)?).to_digit(16);
    u8::try_from(digit(0)? << 4 | digit(1)?).ok()
}

/// Returns whether a character is allowed in a segment without encoding: `pchar`.
fn may_stand(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte)
}

/// Takes the name from a typed value in the request's extensions, such as the caller that an outer
/// layer has authenticated.
///
/// The closure returns what a closure may return as a [`ResourceKey`](crate::layer::ResourceKey): names that
/// it owns, or `None` if no lock is needed. A request without the extension is rejected, with an error that
/// names the type.
///
/// ```
/// use tower_redlock::{key, layer::ResourceKey};
///
/// #[derive(Clone)]
/// struct Principal { account: u64 }
///
/// let key = key::extension(|caller: &Principal| format!("account:{}", caller.account));
/// let mut request = http::Request::new(());
/// assert!(key.key(&request).unwrap_err().to_string().contains("Principal"));
/// request.extensions_mut().insert(Principal { account: 42 });
/// assert_eq!(key.key(&request).unwrap().unwrap().to_string(), "account:42");
/// ```
pub const fn extension<T, F, K>(name: F) -> Key<Extension<T, F>>
where
    T: Send + Sync + 'static,
    F: Fn(&T) -> K,
    K: IntoKey,
{
    Key::new(Extension { name, of: PhantomData })
}

/// Takes the names from a request's extension. Created by [`extension`].
pub struct Extension<T, F> {
    name: F,
    of: PhantomData<fn(&T)>,
}

impl<T, F, K> Find for Extension<T, F>
where
    T: Send + Sync + 'static,
    F: Fn(&T) -> K,
    K: IntoKey,
{
    fn find<'r>(&self, head: &RequestHead<'r>) -> Result<Names<'r>, NoKey> {
        let Some(extension) = head.extensions().get::<T>() else {
            let name = type_name::<T>();
            return Err(NoKey::misplaced(format!(
                "the request has no extension of the type {name}: \
                 what inserts it must be outside of this layer"
            )));
        };
        match (self.name)(extension).into_key() {
            Ok(Some(resource)) => Ok(Names::from(resource)),
            Ok(None) => Err(NoKey::LockNotNeeded),
            Err(error) => Err(NoKey::Invalid(error)),
        }
    }
}

impl<T, F: Clone> Clone for Extension<T, F> {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), of: PhantomData }
    }
}

impl<T, F: Copy> Copy for Extension<T, F> {}

impl<T, F> fmt::Debug for Extension<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Extension").field(&type_name::<T>()).finish()
    }
}
