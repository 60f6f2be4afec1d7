use std::{borrow::Cow, fmt};

use http::HeaderName;

use super::{
    Key, RequestHead,
    names::Names,
    source::{Miss, sealed::Find},
};

/// The value of a header names the resource; it is given once, not empty, and visible ASCII or
/// UTF-8. White space around it is no part of it.
///
/// # Panics
///
/// If `name` is no name of a header.
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

/// Takes the name from a header. Made by [`header`].
#[derive(Clone, Debug)]
pub struct Header {
    name: HeaderName,
}

impl Find for Header {
    fn find<'r>(&self, head: &RequestHead<'r>) -> Result<Names<'r>, Miss> {
        let name = &self.name;
        let mut values = head.headers().get_all(name).iter();
        let Some(value) = values.next() else {
            return Err(Miss::absent(format!("the header {name} is missing")));
        };
        if values.next().is_some() {
            return Err(Miss::bad(format!("the header {name} is given more than once")));
        }
        let text = std::str::from_utf8(value.as_bytes()).ok().map(|text| text.trim_matches(BLANK));
        match text {
            Some("") => Err(Miss::bad(format!("the header {name} is empty"))),
            Some(text) if !text.contains(char::is_control) => Ok(Names::One(Cow::Borrowed(text))),
            _ => Err(Miss::bad(format!("the header {name} is not visible ASCII or UTF-8"))),
        }
    }
}

/// What may stand around a value, and is no part of it (RFC 9110, section 5.5).
pub(super) const BLANK: [char; 2] = [' ', '\t'];
