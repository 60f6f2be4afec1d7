//! TLS options.

use std::{fmt, path::PathBuf};

/// How servers of `rediss://` nodes are verified, and how this client identifies itself to them.
/// Needs the feature `tls`.
///
/// Certificates and keys are PEM, as text or in files. Files are read by
/// [`build`](crate::RedlockBuilder::build), and again for every new connection, so they may change.
/// While a file can't be used, the node fails with
/// [`Reason::NotConnected`](crate::error::Reason::NotConnected); open connections are not affected.
#[derive(Clone, Default)]
#[must_use = "options do nothing until a builder takes them"]
pub struct TlsOptions {
    /// Trusted certificates. Default: the operating system's.
    pub(crate) ca: Option<Vec<u8>>,
    /// File of trusted certificates, in place of `ca`.
    pub(crate) ca_file: Option<PathBuf>,
    /// Client certificate chain. Needs `client_key`.
    pub(crate) client_cert: Option<Vec<u8>>,
    /// File of the client certificate chain, in place of `client_cert`.
    pub(crate) client_cert_file: Option<PathBuf>,
    /// Private key of the client certificate.
    pub(crate) client_key: Option<Vec<u8>>,
    /// File of the private key, in place of `client_key`.
    pub(crate) client_key_file: Option<PathBuf>,
    /// Name in the servers' certificates. Default: the host of each URL.
    pub(crate) server_name: Option<String>,
}

impl TlsOptions {
    /// Creates options that trust the operating system's certificates, without a client
    /// certificate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts only these certificates.
    pub fn ca(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.ca = Some(pem.into());
        self
    }

    /// Trusts only the certificates in this file.
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca_file = Some(path.into());
        self
    }

    /// Sets the client certificate chain and its private key.
    pub fn client(mut self, cert_pem: impl Into<Vec<u8>>, key_pem: impl Into<Vec<u8>>) -> Self {
        self.client_cert = Some(cert_pem.into());
        self.client_key = Some(key_pem.into());
        self
    }

    /// Sets the files of the client certificate chain and of its private key.
    pub fn client_files(mut self, cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.client_cert_file = Some(cert.into());
        self.client_key_file = Some(key.into());
        self
    }

    /// Expects certificates for this name, which is also sent as SNI, for servers that are reached
    /// by address or through a tunnel. Default: the host of each URL.
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
