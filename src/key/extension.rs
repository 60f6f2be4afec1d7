use std::{any::type_name, fmt, marker::PhantomData};

use super::{
    Key, RequestHead,
    names::Names,
    source::{Miss, sealed::Find},
};
use crate::layer::IntoKey;

/// Something typed in the request's extensions names the resource: the caller that a layer outside
/// of this one found out, say.
///
/// The closure returns what a closure may return as a [`ResourceKey`](crate::layer::ResourceKey): names
/// that it owns, and `None` where no lock is needed. A request without the extension is turned
/// away, with an error that names the type.
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

/// Takes the names from a request's extension. Made by [`extension`].
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
    fn find<'r>(&self, head: &RequestHead<'r>) -> Result<Names<'r>, Miss> {
        let Some(extension) = head.extensions().get::<T>() else {
            let name = type_name::<T>();
            return Err(Miss::misplaced(format!(
                "the request has no extension of the type {name}: \
                 what inserts it must be outside of this layer"
            )));
        };
        match (self.name)(extension).into_key() {
            Ok(Some(resource)) => Ok(Names::from(resource)),
            Ok(None) => Err(Miss::Unguarded),
            Err(error) => Err(Miss::Bad(error)),
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
