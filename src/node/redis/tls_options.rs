use std::fmt;

/// How `rediss://` nodes are verified, and how we identify ourselves to them.
///
/// Everything is PEM text. Needs the feature `tls`.
#[derive(Clone, Default)]
pub struct TlsOptions {
    /// The certificates to trust. Default: those of the operating system.
    pub ca: Option<Vec<u8>>,
    /// Our certificate chain, for servers that ask for one. Needs `client_key`.
    pub client_cert: Option<Vec<u8>>,
    /// The key of our certificate.
    pub client_key: Option<Vec<u8>>,
}

impl TlsOptions {
    /// The operating system's certificates, and no client certificate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts these certificates only.
    #[must_use]
    pub fn ca(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.ca = Some(pem.into());
        self
    }

    /// Identifies us by this certificate chain and key.
    #[must_use]
    pub fn client(mut self, cert_pem: impl Into<Vec<u8>>, key_pem: impl Into<Vec<u8>>) -> Self {
        self.client_cert = Some(cert_pem.into());
        self.client_key = Some(key_pem.into());
        self
    }
}

impl fmt::Debug for TlsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsOptions")
            .field("ca", &self.ca.is_some())
            .field("client_cert", &self.client_cert.is_some())
            .finish_non_exhaustive()
    }
}
