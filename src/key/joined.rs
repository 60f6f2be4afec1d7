use std::borrow::Cow;

use super::{
    Key, RequestHead,
    decode::part,
    names::Names,
    source::{
        Miss,
        sealed::{Find, OfHead},
    },
};
use crate::layer::KeyError;

/// Several keys whose names make one, with `:` between them: a tenant and its account, say. Takes a
/// tuple of two to four.
///
/// In what the request said, `:` becomes `%3A` and `%` becomes `%25`, so no two lists of parts make
/// one name. A request for which one of the keys needs no lock (an optional one, say) needs none.
///
/// ```
/// use tower_redlock::{key, layer::ResourceKey};
///
/// let key = key::joined((key::header("x-tenant"), key::path_segment(1))).prefixed("account:");
/// let request = |tenant: &str, path: &str| {
///     http::Request::post(path).header("x-tenant", tenant).body(()).unwrap()
/// };
/// let name = |request| key.key(&request).unwrap().unwrap().to_string();
/// assert_eq!(name(request("eu", "/accounts/1:2")), "account:eu:1%3A2");
/// assert_eq!(name(request("eu:1", "/accounts/2")), "account:eu%3A1:2");
/// ```
pub fn joined<T>(keys: T) -> Key<Joined<T>>
where
    Joined<T>: super::BodySource,
{
    Key::new(Joined { keys })
}

/// Makes one name of several keys'. Made by [`joined`].
#[derive(Clone, Copy, Debug)]
pub struct Joined<T> {
    keys: T,
}

fn one<'r, S: Find>(key: &Key<S>, head: &RequestHead<'r>) -> Result<Cow<'r, str>, Miss> {
    match key.source().find(head)?.into_one() {
        Some(name) if S::IS_JOINED => Ok(name),
        Some(name) => Ok(part(name)),
        None => Err(Miss::Bad(KeyError::setup(
            "a key that is joined with others is one name, not a set of names",
        ))),
    }
}

macro_rules! tuples {
    ($(($($source:ident $i:tt),*))*) => {$(
        impl<$($source: Find),*> Find for Joined<($(Key<$source>,)*)> {
            const IS_JOINED: bool = true;

            fn find<'r>(&self, head: &RequestHead<'r>) -> Result<Names<'r>, Miss> {
                let parts = [$(one(&self.keys.$i, head)?),*];
                Ok(Names::One(Cow::Owned(parts.join(":"))))
            }
        }

        impl<$($source: OfHead),*> OfHead for Joined<($(Key<$source>,)*)> {}
    )*};
}
tuples! {
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
}
