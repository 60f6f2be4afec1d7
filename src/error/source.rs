//! The sources of errors whose type is generic.

use std::{
    any::Any,
    error::Error,
    fmt::{Debug, Display},
};

use super::LockError;

/// Returns the source of an error that a wrapper displays, for known types of errors.
///
/// `Box<dyn Error>`, which many tower services use, does not implement `Error`, so the wrappers
/// cannot require that trait. They require less, and look for the known types.
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
