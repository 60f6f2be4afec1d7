//! The sources of errors whose type is generic.

use std::{
    any::Any,
    error::Error,
    fmt::{Debug, Display},
};

use super::LockError;

/// Returns the source of an error that a wrapper displays, for the types that are known here.
///
/// `Box<dyn Error>`, which many tower services have, does not implement `Error`, so the wrappers cannot
/// require it. They require less, and look for the types that have sources.
pub(crate) fn source_of<E: Debug + Display + 'static>(error: &E) -> Option<&(dyn Error + 'static)> {
    macro_rules! first {
        ($($(#[$cfg:meta])* $type:ty),* $(,)?) => {$(
            $(#[$cfg])*
            if let Some(error) = (error as &dyn Any).downcast_ref::<$type>() {
                return error.source();
            }
        )*};
    }
    first!(
        Box<dyn Error + Send + Sync>,
        Box<dyn Error + Send>,
        Box<dyn Error>,
        LockError,
        std::io::Error,
        #[cfg(feature = "axum")]
        axum::Error,
        #[cfg(feature = "tonic")]
        tonic::Status,
    );
    None
}
