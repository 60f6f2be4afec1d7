//! Keys made of several keys.

use std::borrow::Cow;

use super::{
    Key, RequestHead,
    decode::part,
    names::Names,
    source::{
        NoKey,
        sealed::{Find, HeadOnly},
    },
};
use crate::layer::KeyError;

/// Combines two to four keys, as a tuple: their names are locked all or none.
///
/// A key that needs no lock for a request, such as an optional one, adds no name. If no key adds one, the
/// request passes without a lock.
///
/// ```
/// use tower_redlock::{key, layer::ResourceKey};
///
/// // Both ends of a transfer, in any order.
/// let key = key::all((key::query("from"), key::query("to"))).prefixed("account:");
/// let request = http::Request::post("/transfer?from=2&to=1").body(())?;
/// assert_eq!(key.key(&request).unwrap().unwrap().to_string(), "account:1 + account:2");
/// # Ok::<(), http::Error>(())
/// ```
pub fn all<T>(keys: T) -> Key<All<T>>
where
    All<T>: super::BodySource,
{
    Key::new(All { keys })
}

/// Takes the names from several keys. Created by [`all`].
#[derive(Clone, Copy, Debug)]
pub struct All<T> {
    keys: T,
}

/// Joins the names of two to four keys, as a tuple, into one with `:` between them, such as a tenant and its
/// account.
///
/// In the text of the request, `:` becomes `%3A` and `%` becomes `%25`, so different parts never make the
/// same name. If one of the keys needs no lock for a request, such as an optional one, the request passes
/// without a lock.
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

/// Joins the names of several keys. Created by [`joined`].
#[derive(Clone, Copy, Debug)]
pub struct Joined<T> {
    keys: T,
}

/// The single name of a key, with `:` and `%` escaped.
fn escaped_name<'r, S: Find>(key: &Key<S>, head: &RequestHead<'r>) -> Result<Cow<'r, str>, NoKey> {
    match key.source().find(head)?.into_one() {
        Some(name) if S::IS_ESCAPED => Ok(name),
        Some(name) => Ok(part(name)),
        None => Err(NoKey::Invalid(KeyError::setup(
            "a joined key must be a single name, not a set of names",
        ))),
    }
}

macro_rules! tuples {
    ($(($($source:ident $i:tt),*))*) => {$(
        impl<$($source: Find),*> Find for All<($(Key<$source>,)*)> {
            const IS_ESCAPED: bool = $($source::IS_ESCAPED)&&*;

            fn find<'r>(&self, head: &RequestHead<'r>) -> Result<Names<'r>, NoKey> {
                let mut all: Option<Names<'r>> = None;
                $(match self.keys.$i.source().find(head) {
                    Ok(names) => all = Some(match all.take() {
                        Some(others) => others.and(names),
                        None => names,
                    }),
                    Err(NoKey::LockNotNeeded) => {}
                    Err(no_key) => return Err(no_key),
                })*
                all.ok_or(NoKey::LockNotNeeded)
            }
        }

        impl<$($source: HeadOnly),*> HeadOnly for All<($(Key<$source>,)*)> {}

        impl<$($source: Find),*> Find for Joined<($(Key<$source>,)*)> {
            const IS_ESCAPED: bool = true;

            fn find<'r>(&self, head: &RequestHead<'r>) -> Result<Names<'r>, NoKey> {
                let parts = [$(escaped_name(&self.keys.$i, head)?),*];
                Ok(Names::One(Cow::Owned(parts.join(":"))))
            }
        }

        impl<$($source: HeadOnly),*> HeadOnly for Joined<($(Key<$source>,)*)> {}
    )*};
}
tuples! {
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
}
