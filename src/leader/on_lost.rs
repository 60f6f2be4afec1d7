//! The callback for a lost term.

use std::{fmt, sync::Arc};

use crate::{
    callback::{CallbackOutput, Later, later},
    error::LossCause,
};

/// The callback for a lost term. Boxed: losses are rare.
#[derive(Clone)]
pub(super) struct OnLost(Arc<dyn Fn(LossCause) -> Option<Later> + Send + Sync>);

impl OnLost {
    pub(super) fn new<F, R, Kind>(on_lost: F) -> Self
    where
        F: Fn(LossCause) -> R + Send + Sync + 'static,
        R: CallbackOutput<Kind>,
    {
        Self(Arc::new(move |cause| later(on_lost(cause))))
    }

    pub(super) async fn call(&self, cause: LossCause) {
        // A statement of its own: the closure's borrows end with the call.
        let later = (self.0)(cause);
        if let Some(later) = later {
            later.await;
        }
    }
}

impl fmt::Debug for OnLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnLost")
    }
}
