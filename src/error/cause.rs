use std::{
    any::Any,
    error::Error,
    fmt::{Debug, Display},
};

use super::LockError;

/// Returns the cause of an error that a wrapper shows as it is, for the types that are known here.
///
/// A `Box<dyn Error>`, which many services of tower have, is no `Error`, and Rust has no way to ask
/// whether an `E` is one. So the wrappers ask for less, and look for the types that have causes.
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
