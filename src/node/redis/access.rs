//! How to get into a server: what is the same for all that a program speaks to.

use std::sync::Arc;

use super::{Connector, Credentials};

/// What a connection is opened with.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    /// For servers whose URL names none.
    pub(crate) credentials: Option<Credentials>,
    pub(crate) connector: Arc<dyn Connector>,
    #[cfg(feature = "tls")]
    pub(crate) tls: super::tls::TlsConfig,
}
