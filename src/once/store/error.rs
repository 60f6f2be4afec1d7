use std::{error::Error, fmt, sync::Arc};

/// Why a [`ResponseStore`](super::ResponseStore) could not keep or find a response.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// A newer holder's response is kept: whoever wanted to put this one was overtaken.
    Stale,
    /// The store failed; what it said is the source.
    Failed(Arc<dyn Error + Send + Sync>),
}

impl StoreError {
    /// A store's own error.
    pub fn failed(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Failed(error.into().into())
    }

    /// What an operator is told.
    pub(crate) fn said(&self) -> &dyn fmt::Display {
        match self {
            Self::Stale => self,
            Self::Failed(error) => error,
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stale => "the response of a newer holder is kept already",
            Self::Failed(_) => "the store of responses failed",
        })
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Stale => None,
            Self::Failed(error) => Some(&**error),
        }
    }
}
