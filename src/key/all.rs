use super::{
    Key, RequestHead,
    names::Names,
    source::{
        Miss,
        sealed::{Find, OfHead},
    },
};

/// Several keys: their names are locked all or none. Takes a tuple of two to four.
///
/// A key that needs no lock for a request (an optional one, say) adds no name; where none of them
/// does, the request passes without a lock.
///
/// ```
/// use tower_redlock::{key, layer::ResourceKey};
///
/// // Both ends of a transfer, in whatever order.
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

/// Takes the names from several keys. Made by [`all`].
#[derive(Clone, Copy, Debug)]
pub struct All<T> {
    keys: T,
}

macro_rules! tuples {
    ($(($($source:ident $i:tt),*))*) => {$(
        impl<$($source: Find),*> Find for All<($(Key<$source>,)*)> {
            const IS_JOINED: bool = $($source::IS_JOINED)&&*;

            fn find<'r>(&self, head: &RequestHead<'r>) -> Result<Names<'r>, Miss> {
                let mut all: Option<Names<'r>> = None;
                $(match self.keys.$i.source().find(head) {
                    Ok(names) => all = Some(match all.take() {
                        Some(others) => others.and(names),
                        None => names,
                    }),
                    Err(Miss::Unguarded) => {}
                    Err(miss) => return Err(miss),
                })*
                all.ok_or(Miss::Unguarded)
            }
        }

        impl<$($source: OfHead),*> OfHead for All<($(Key<$source>,)*)> {}
    )*};
}
tuples! {
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
}
