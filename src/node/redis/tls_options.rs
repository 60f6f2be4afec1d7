//! TLS options.

use std::{fmt, path::PathBuf};

/// How `rediss://` nodes are verified, and how we identify ourselves to them.
///
/// Certificates and keys are PEM, given as text or as files. Files are read by
/// [`build`](crate::RedlockBuilder::build), and again at every connect, so that they may change: new
/// connections use what is in them then. Files that can't be used are a
/// [`Reason::NotConnected`](crate::error::Reason::NotConnected) of the node until they can; connections
/// that stand are not touched. Needs the feature `tls`.
#[derive(Clone, Default)]
pub struct TlsOptions {
    /// The certificates to trust. Default: those of the operating system.
    pub ca: Option<Vec<u8>>,
    /// The file of the certificates to trust, in place of `ca`.
    pub ca_file: Option<PathBuf>,
    /// Our certificate chain, for servers that ask for one. Needs `client_key`.
    pub client_cert: Option<Vec<u8>>,
    /// The file of our certificate chain, in place of `client_cert`.
    pub client_cert_file: Option<PathBuf>,
    /// The key of our certificate.
    pub client_key: Option<Vec<u8>>,
    /// The file of our certificate's key, in place of `client_key`.
    pub client_key_file: Option<PathBuf>,
    /// The name expected in the servers' certificates, also sent as SNI. Default: the host of each
    /// URL.
    pub server_name: Option<String>,
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

    /// Trusts the certificates in this file only.
    #[must_use]
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca_file = Some(path.into());
        self
    }

    /// Identifies us by this certificate chain and key.
    #[must_use]
    pub fn client(mut self, cert_pem: impl Into<Vec<u8>>, key_pem: impl Into<Vec<u8>>) -> Self {
        self.client_cert = Some(cert_pem.into());
        self.client_key = Some(key_pem.into());
        self
    }

    /// Identifies us by the certificate chain and the key in these files.
    #[must_use]
    pub fn client_files(mut self, cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.client_cert_file = Some(cert.into());
        self.client_key_file = Some(key.into());
        self
    }

    /// Expects certificates for this name, whatever the hosts of the URLs: for servers that are
    /// reached by address, or through a tunnel.
    #[must_use]
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }
}

impl fmt::Debug for TlsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsOptions")
            .field("ca", &self.ca.is_some())
            .field("ca_file", &self.ca_file)
            .field("client_cert", &self.client_cert.is_some())
            .field("client_cert_file", &self.client_cert_file)
            .field("client_key_file", &self.client_key_file)
            .field("server_name", &self.server_name)
            .finish_non_exhaustive()
    }
}
