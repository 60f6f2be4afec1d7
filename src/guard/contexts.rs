//! The locks of several layers around one request.

use std::{fmt, sync::Arc};

use http::Extensions;

use super::LockContext;

/// The locks of all layers around the handler of a request: in the request's extensions, and with the
/// feature `axum` an extractor. Never empty.
///
/// A [`LockContext`] in the extensions, or from its extractor, belongs to the innermost layer. This
/// type has the context of each layer, by the name that
/// [`RedlockLayer::named`](crate::RedlockLayer::named) or [`OnceLayer::new`](crate::OnceLayer::new)
/// sets. Layers without `http()` or `grpc()` are missing, and so are layers that needed no lock for
/// this request.
///
/// A request that has started inside a `OnceLayer` runs to its end even if its client disconnects
/// ([`detached`](crate::OnceLayer::detached)). The lock of a layer around the `OnceLayer` is
/// released when the client disconnects, and the lock of a layer inside it at the end of the
/// request. So make the `OnceLayer` the outer one.
///
/// ```
/// use tower_redlock::{LockContexts, OnceLayer, Redlock, RedlockLayer, key};
///
/// // With axum, `locks: LockContexts` is an extractor.
/// fn charge(request: &http::Request<()>) -> u64 {
///     let locks = request.extensions().get::<LockContexts>().expect("two layers are around this");
///     // For the account's table; the other token is for the payments'.
///     locks.get("account").expect("behind the layer `account`").fencing_token().get()
/// }
///
/// let redlock = Redlock::embedded();
/// let once = OnceLayer::new(redlock.clone(), "payments", key::header("payment-id")).http();
/// let account = RedlockLayer::new(redlock, key::path_segment(1)).named("account").http();
/// let layers = tower::ServiceBuilder::new().layer(once).layer(account);
/// # let _ = (charge, layers);
/// ```
#[derive(Clone)]
pub struct LockContexts {
    /// The contexts, the outermost first.
    outer: Vec<NamedContext>,
    innermost: NamedContext,
}

/// A layer's context.
#[derive(Clone)]
struct NamedContext {
    layer: Option<Arc<str>>,
    context: LockContext,
}

impl LockContexts {
    /// Returns the lock of the layer with this name, the innermost of several.
    pub fn get(&self, layer: &str) -> Option<&LockContext> {
        let mut found = self.contexts().rev();
        found.find(|named| named.layer.as_deref() == Some(layer)).map(|named| &named.context)
    }

    /// Returns the lock on this name, alone or within a set; the innermost of several. The name of
    /// a [`OnceLayer`](crate::OnceLayer)'s lock is `once:layer:`, the layer's name, `:` and the key.
    pub fn on(&self, name: &str) -> Option<&LockContext> {
        self.contexts()
            .rev()
            .map(|named| &named.context)
            .find(|context| context.resource().names().any(|locked| locked == name))
    }

    /// Iterates over all locks, the outermost first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &LockContext> {
        self.contexts().map(|named| &named.context)
    }

    fn contexts(&self) -> impl DoubleEndedIterator<Item = &NamedContext> {
        self.outer.iter().chain([&self.innermost])
    }

    /// Adds the context of a layer as the innermost.
    pub(crate) fn enter(
        extensions: &mut Extensions,
        layer: Option<Arc<str>>,
        context: LockContext,
    ) {
        let innermost = NamedContext { layer, context: context.clone() };
        let outer = extensions.remove::<Self>().map_or_else(Vec::new, |entered| {
            let Self { mut outer, innermost } = entered;
            outer.push(innermost);
            outer
        });
        extensions.insert(Self { outer, innermost });
        extensions.insert(context);
    }
}

impl fmt::Debug for LockContexts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let contexts = self.contexts().map(|named| (&named.layer, &named.context));
        f.debug_list().entries(contexts).finish()
    }
}
