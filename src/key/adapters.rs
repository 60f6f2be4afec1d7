//! Sources that change or select what another source finds: the results of the methods of a key.

use std::{any::type_name, borrow::Cow, fmt, marker::PhantomData, str::FromStr, sync::Arc};

use hmac::{Hmac, Mac};
use http::Method;
use sha2::{Digest, Sha256};

use super::{
    RequestHead,
    decode::part,
    names::Names,
    source::{NoKey, sealed::Find},
};

/// A source whose names get a prefix. Created by [`Key::prefixed`](super::Key::prefixed).
#[derive(Clone, Debug)]
pub struct Prefixed<S> {
    pub(super) source: S,
    pub(super) prefix: Arc<str>,
}

impl<S: Find> Find for Prefixed<S> {
    const IS_ESCAPED: bool = true;

    fn find<'r>(&self, head: &RequestHead<'r>) -> Result<Names<'r>, NoKey> {
        let names = self.source.find(head)?;
        Ok(names.map(|name| {
            let name = if S::IS_ESCAPED { name } else { part(name) };
            Cow::Owned([&*self.prefix, &*name].concat())
        }))
    }
}

/// A source whose names are parsed as a type and formatted by it. Created by
/// [`Key::parsed`](super::Key::parsed).
pub struct Parsed<S, T> {
    pub(super) source: S,
    pub(super) of: PhantomData<fn() -> T>,
}

impl<S: Find, T: FromStr + fmt::Display> Find for Parsed<S, T> {
    fn find<'r>(&self, head: &RequestHead<'r>) -> Result<Names<'r>, NoKey> {
        self.source.find(head)?.try_map(|name| match name.parse::<T>() {
            Ok(value) => Ok(Cow::Owned(value.to_string())),
            Err(_) => Err(NoKey::invalid("the lock key in this request is malformed")),
        })
    }
}

impl<S: Clone, T> Clone for Parsed<S, T> {
    fn clone(&self) -> Self {
        Self { source: self.source.clone(), of: PhantomData }
    }
}

impl<S: Copy, T> Copy for Parsed<S, T> {}

impl<S: fmt::Debug, T> fmt::Debug for Parsed<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parsed")
            .field("source", &self.source)
            .field("as", &type_name::<T>())
            .finish()
    }
}

/// A source whose names are replaced by their SHA-256. Created by
/// [`Key::hashed`](super::Key::hashed).
#[derive(Clone, Copy, Debug)]
pub struct Hashed<S> {
    pub(super) source: S,
}

impl<S: Find> Find for Hashed<S> {
    fn find<'r>(&self, head: &RequestHead<'r>) -> Result<Names<'r>, NoKey> {
        Ok(self.source.find(head)?.map(|name| hex(&Sha256::digest(name.as_bytes()))))
    }
}

/// A source whose names are replaced by their HMAC-SHA-256. Created by
/// [`Key::hashed_with`](super::Key::hashed_with).
///
/// Source: H. Krawczyk, M. Bellare, R. Canetti, *HMAC: Keyed-Hashing for Message Authentication*
/// (RFC 2104).
#[derive(Clone)]
pub struct HashedWith<S> {
    source: S,
    keyed: Hmac<Sha256>,
}

impl<S> HashedWith<S> {
    pub(super) fn new(source: S, secret: &[u8]) -> Self {
        assert!(!secret.is_empty(), "the secret of a hashed key is empty");
        let keyed = Hmac::new_from_slice(secret).expect("HMAC takes secrets of any length");
        Self { source, keyed }
    }
}

impl<S: Find> Find for HashedWith<S> {
    fn find<'r>(&self, head: &RequestHead<'r>) -> Result<Names<'r>, NoKey> {
        let hash = |name: Cow<'r, str>| {
            hex(&self.keyed.clone().chain_update(name.as_bytes()).finalize().into_bytes())
        };
        Ok(self.source.find(head)?.map(hash))
    }
}

/// Omits the secret.
impl<S: fmt::Debug> fmt::Debug for HashedWith<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HashedWith").field("source", &self.source).finish_non_exhaustive()
    }
}

fn hex<'r>(bytes: &[u8]) -> Cow<'r, str> {
    let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// A key that a request may lack. Created by [`Key::optional`](super::Key::optional).
#[derive(Clone, Copy, Debug)]
pub struct Optional<S> {
    pub(super) source: S,
}

impl<S: Find> Find for Optional<S> {
    const IS_ESCAPED: bool = S::IS_ESCAPED;

    fn find<'r>(&self, head: &RequestHead<'r>) -> Result<Names<'r>, NoKey> {
        self.source.find(head).map_err(|no_key| match no_key {
            NoKey::Missing(_) => NoKey::LockNotNeeded,
            no_key => no_key,
        })
    }
}

/// A key for requests with some methods. Created by [`Key::only`](super::Key::only).
#[derive(Clone, Debug)]
pub struct Only<S> {
    pub(super) source: S,
    pub(super) methods: Arc<[Method]>,
}

impl<S: Find> Find for Only<S> {
    const IS_ESCAPED: bool = S::IS_ESCAPED;

    fn find<'r>(&self, head: &RequestHead<'r>) -> Result<Names<'r>, NoKey> {
        let is_one = |method: &Method| self.methods.contains(method);
        if is_one(head.method()) || is_one(head.handled_as()) {
            self.source.find(head)
        } else {
            Err(NoKey::LockNotNeeded)
        }
    }
}

/// A key for requests that a predicate accepts. Created by [`Key::when`](super::Key::when).
#[derive(Clone, Copy)]
pub struct When<S, P> {
    pub(super) source: S,
    pub(super) predicate: P,
}

impl<S, P> Find for When<S, P>
where
    S: Find,
    P: Fn(&RequestHead<'_>) -> bool,
{
    const IS_ESCAPED: bool = S::IS_ESCAPED;

    fn find<'r>(&self, head: &RequestHead<'r>) -> Result<Names<'r>, NoKey> {
        if (self.predicate)(head) { self.source.find(head) } else { Err(NoKey::LockNotNeeded) }
    }
}

impl<S: fmt::Debug, P> fmt::Debug for When<S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("When").field("source", &self.source).finish_non_exhaustive()
    }
}
