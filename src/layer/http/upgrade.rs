//! Holds the lock of a request for the life of the connection that its response upgrades.
//!
//! After an upgrade the handler gets the connection as a type of the server, which a layer can't wrap.
//! So the handler takes a handle, and the layer moves the lock into it when the response passes.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
};

use http::Extensions;
use pin_project::pin_project;

use crate::{
    error::LockError,
    guard::{Guarded, Hold, LockContext},
    sync::{self, Mutex, OnceLock},
};

/// A handle to the lock of a request, for the life of the connection that its response upgrades,
/// such as a websocket. Requests through a layer with
/// [`hold_upgrade(true)`](crate::RedlockLayer::hold_upgrade) have one.
///
/// [`run`](Self::run) polls the work with the connection while the lock is valid, and releases the
/// lock when the work has ended. A handler may also keep the handle: the lock is then held until
/// the handle is dropped. Work whose lock is lost then continues, unless it checks the
/// [`context`](Self::context). In both cases the lock is released after `max_hold` at the latest.
///
/// | what the handler does | the upgrade | the lock is released |
/// |---|---|---|
/// | runs work under the handle, or keeps it | passes | when the work has ended, or the handle is dropped |
/// | drops the handle before it responds | passes, without a lock | with the response |
/// | does not take the handle | refused: 500, `upgrade-unguarded`; the connection is closed | with the response |
/// | does not upgrade the connection | | with the response or its body |
///
/// The work notices a lost peer when it reads from or writes to the connection, so send pings to
/// silent peers.
///
/// If an outer layer replaces the response that upgrades the connection, the lock is held until the
/// handle is dropped, or `max_hold` is over. Over HTTP/1.1, a handle that was moved into axum's
/// `on_upgrade` is dropped when the client has closed the connection: put layers that refuse
/// upgrades inside. An outer `RedlockLayer` that refuses one makes the server drop the connection,
/// and the handle with it.
///
/// With the feature `axum` it is an extractor:
///
/// ```
/// use std::time::Duration;
/// use axum::{
///     Router,
///     extract::ws::{WebSocket, WebSocketUpgrade},
///     response::Response,
///     routing::any,
/// };
/// use tower_redlock::{LockContext, Redlock, RedlockLayer, key, layer::http::HeldUpgrade};
///
/// async fn edit(held: HeldUpgrade, upgrade: WebSocketUpgrade) -> Response {
///     upgrade.on_upgrade(move |socket| async move {
///         if let Err(lost) = held.run(|cx| session(socket, cx)).await {
///             println!("the session was cut: {lost}");
///         }
///     })
/// }
///
/// async fn session(mut socket: WebSocket, cx: LockContext) {
///     loop {
///         tokio::select! {
///             message = socket.recv() => match message {
///                 Some(Ok(message)) => println!("{message:?}, under {}", cx.fencing_token()),
///                 // The peer has closed the connection, or is gone.
///                 _ => return,
///             },
///             // Soon to be lost, or `max_hold` is nearly over.
///             () = cx.stopping() => return,
///         }
///     }
/// }
///
/// let document = key::path_param("id").prefixed("document:");
/// let one_editor = RedlockLayer::new(Redlock::embedded(), document)
///     .max_hold(Duration::from_secs(3600))
///     .http()
///     .hold_upgrade(true);
/// let app: Router = Router::new().route("/edit/{id}", any(edit)).route_layer(one_editor);
/// # let _ = app;
/// ```
#[must_use = "the lock is released as soon as it is dropped"]
pub struct HeldUpgrade {
    slot: Arc<UpgradeSlot>,
    context: LockContext,
}

impl HeldUpgrade {
    /// Takes the handle from a request's extensions. Inside several layers that hold upgrades, each
    /// call takes the handle of the next layer outwards. All of them must be taken.
    ///
    /// Returns `None` for a request without a lock, without
    /// [`hold_upgrade(true)`](crate::RedlockLayer::hold_upgrade), or whose handle was taken.
    pub fn take(extensions: &Extensions) -> Option<Self> {
        let offer = extensions.get::<Offer>()?;
        offer.0.iter().rev().find_map(|slot| {
            let context = slot.context.get()?.clone();
            slot.take().then(|| Self { slot: Arc::clone(slot), context })
        })
    }

    /// Returns the lock's context, for example to end the work when it is
    /// [`stopping`](LockContext::stopping).
    pub const fn context(&self) -> &LockContext {
        &self.context
    }

    /// Waits until the response that upgrades the connection has passed the layer, runs `work`
    /// under the lock, and releases the lock. The work is dropped before the lock ends, together
    /// with the connection that it owns.
    ///
    /// Run it in a task, such as the task of axum's `on_upgrade`, as the handler has to respond
    /// first.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the lock was lost while the work ran: the work was dropped. Also if the
    /// response did not upgrade the connection, with the cause
    /// [`Released`](crate::error::LossCause::Released) or what ended the request: the work did not start.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work, then releases the lock.
    ///
    /// # Panics
    ///
    /// If the work panics; the lock is then released.
    pub fn run<F, Fut>(self, work: F) -> RunUpgrade<F, Fut>
    where
        F: FnOnce(LockContext) -> Fut,
        Fut: Future,
    {
        RunUpgrade { state: RunUpgradeState::Waiting { held: Some((work, self)) } }
    }
}

impl Drop for HeldUpgrade {
    fn drop(&mut self) {
        // Dropped after the mutex is unlocked: the drop releases the lock, and a waker is code
        // outside this crate.
        let state = std::mem::replace(&mut *sync::lock(&self.slot.state), HandleState::Over);
        drop(state);
    }
}

impl fmt::Debug for HeldUpgrade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldUpgrade").field("context", &self.context).finish_non_exhaustive()
    }
}

/// The future of [`HeldUpgrade::run`].
///
/// # Panics
///
/// If polled again after it was ready, or if the work panics.
#[pin_project]
#[must_use = "futures do nothing unless polled"]
pub struct RunUpgrade<F, Fut> {
    #[pin]
    state: RunUpgradeState<F, Fut>,
}

#[pin_project(project = RunUpgradeStateProj)]
enum RunUpgradeState<F, Fut> {
    Waiting {
        /// The work is dropped before the lock is released.
        held: Option<(F, HeldUpgrade)>,
    },
    Running {
        #[pin]
        guarded: Guarded<Fut>,
    },
}

impl<F, Fut> Future for RunUpgrade<F, Fut>
where
    F: FnOnce(LockContext) -> Fut,
    Fut: Future,
{
    type Output = Result<Fut::Output, LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        const AFTER: &str = "polled after it was ready";
        let mut this = self.project();
        loop {
            match this.state.as_mut().project() {
                RunUpgradeStateProj::Waiting { held } => {
                    let passed = ready!(held.as_ref().expect(AFTER).1.slot.poll_hold(cx));
                    let (work, handle) = held.take().expect(AFTER);
                    let Some(hold) = passed else {
                        let cause = handle.context.lease().loss();
                        return Poll::Ready(Err(LockError::lost(cause)));
                    };
                    let guarded = Guarded::continue_with(hold, work)?;
                    this.state.set(RunUpgradeState::Running { guarded });
                }
                RunUpgradeStateProj::Running { guarded } => {
                    return Poll::Ready(ready!(guarded.poll(cx)).map(|(output, _hold)| output));
                }
            }
        }
    }
}

impl<F, Fut> fmt::Debug for RunUpgrade<F, Fut> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            RunUpgradeState::Waiting { .. } => "waiting for the response",
            RunUpgradeState::Running { .. } => "running",
        };
        f.debug_struct("RunUpgrade").field("state", &state).finish_non_exhaustive()
    }
}

/// The state shared by a layer and the handler's handle.
#[derive(Debug)]
struct UpgradeSlot {
    /// Unset while the request has no lock.
    context: OnceLock<LockContext>,
    state: Mutex<HandleState>,
}

#[derive(Debug)]
enum HandleState {
    /// The handle was not taken.
    Free,
    /// The handle was taken, and may wait for the response.
    Taken(Option<Waker>),
    /// The response has upgraded the connection.
    Held(Hold),
    /// The lock was released or taken out, or the response did not upgrade the connection.
    Over,
}

impl UpgradeSlot {
    fn take(&self) -> bool {
        let mut state = sync::lock(&self.state);
        let is_free = matches!(*state, HandleState::Free);
        if is_free {
            *state = HandleState::Taken(None);
        }
        is_free
    }

    /// Takes the lock out; `None` if the response did not upgrade the connection.
    fn poll_hold(&self, cx: &Context<'_>) -> Poll<Option<Hold>> {
        let waker = sync::clone_waker(cx.waker());
        let mut state = sync::lock(&self.state);
        let (polled, replaced) = match std::mem::replace(&mut *state, HandleState::Over) {
            HandleState::Held(hold) => (Poll::Ready(Some(hold)), Some(waker)),
            HandleState::Over => (Poll::Ready(None), Some(waker)),
            HandleState::Free | HandleState::Taken(None) => {
                *state = HandleState::Taken(Some(waker));
                (Poll::Pending, None)
            }
            HandleState::Taken(replaced) => {
                *state = HandleState::Taken(Some(waker));
                (Poll::Pending, replaced)
            }
        };
        drop(state);
        drop(replaced);
        polled
    }
}

/// The slots of the layers around a request, in its extensions, the innermost last.
#[derive(Clone, Debug, Default)]
pub(super) struct Offer(Vec<Arc<UpgradeSlot>>);

impl Offer {
    /// Sets the context of the innermost layer's lock.
    pub(super) fn set_context(extensions: &Extensions, context: &LockContext) {
        let slot = extensions.get::<Self>().and_then(|offer| offer.0.last());
        if let Some(slot) = slot {
            // Set once.
            let _ = slot.context.set(context.clone());
        }
    }
}

/// The layer's side of a slot. Dropping it without a lock in it ends the wait for one.
#[derive(Debug)]
pub(super) struct Offered(Arc<UpgradeSlot>);

impl Offered {
    /// Puts a slot into a request's extensions.
    pub(super) fn to(extensions: &mut Extensions) -> Self {
        let slot = UpgradeSlot { context: OnceLock::new(), state: Mutex::new(HandleState::Free) };
        let slot = Arc::new(slot);
        let mut offer = extensions.get::<Offer>().cloned().unwrap_or_default();
        offer.0.push(Arc::clone(&slot));
        extensions.insert(offer);
        Self(slot)
    }

    /// Moves the lock into the handle, as the response upgrades the connection. Returns the lock if
    /// the handle was not taken.
    pub(super) fn keep(&self, hold: Hold) -> Option<Hold> {
        let mut state = sync::lock(&self.0.state);
        match std::mem::replace(&mut *state, HandleState::Over) {
            HandleState::Taken(waker) => {
                *state = HandleState::Held(hold);
                drop(state);
                if let Some(waker) = waker {
                    sync::wake(waker);
                }
                None
            }
            // The handle was dropped. The lock is released after the mutex is unlocked.
            HandleState::Over => {
                drop(state);
                drop(hold);
                None
            }
            HandleState::Free | HandleState::Held(_) => Some(hold),
        }
    }
}

impl Drop for Offered {
    fn drop(&mut self) {
        let mut state = sync::lock(&self.0.state);
        if matches!(*state, HandleState::Free | HandleState::Taken(_)) {
            let over = std::mem::replace(&mut *state, HandleState::Over);
            drop(state);
            if let HandleState::Taken(Some(waker)) = over {
                sync::wake(waker);
            }
        }
    }
}
