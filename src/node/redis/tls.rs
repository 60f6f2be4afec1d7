use std::{fmt, io, sync::Arc};

use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::{CryptoProvider, ring},
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    },
};

use super::{Address, Endpoint, IoStream, TlsOptions};
use crate::error::BuildError;

/// How to speak TLS, where a node asks for it.
pub(crate) struct TlsConfig(Option<Arc<ClientConfig>>);

/// Reads certificates only where they are needed: some machines have none.
pub(crate) fn tls_config(
    options: Option<&TlsOptions>,
    endpoints: &[Endpoint],
) -> Result<Arc<TlsConfig>, BuildError> {
    if options.is_none() && !endpoints.iter().any(|endpoint| endpoint.tls) {
        return Ok(Arc::new(TlsConfig(None)));
    }
    let is_plain =
        |at: &&Endpoint| !at.tls && matches!(at.address, Address::Tcp { .. }) && options.is_some();
    if let Some(plain) = endpoints.iter().find(is_plain) {
        let reason = format!(
            "node {} would be spoken to without TLS: give its URL as rediss://, or no TLS options",
            plain.name
        );
        return Err(BuildError::Tls { reason });
    }
    let config = client_config(&options.cloned().unwrap_or_default())
        .map_err(|reason| BuildError::Tls { reason })?;
    Ok(Arc::new(TlsConfig(Some(Arc::new(config)))))
}

fn client_config(options: &TlsOptions) -> Result<ClientConfig, String> {
    // The program's own choice of cryptography goes first; nothing is installed for it.
    let provider = CryptoProvider::get_default()
        .map_or_else(|| Arc::new(ring::default_provider()), Arc::clone);
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots(options.ca.as_deref())?);
    match (&options.client_cert, &options.client_key) {
        (None, None) => Ok(builder.with_no_client_auth()),
        (Some(cert), Some(key)) => {
            let chain = certificates(cert, "client_cert")?;
            let key = PrivateKeyDer::from_pem_slice(key)
                .map_err(|error| format!("client_key has no usable private key: {error}"))?;
            builder.with_client_auth_cert(chain, key).map_err(|error| error.to_string())
        }
        (Some(_), None) => Err("client_cert is given without client_key".into()),
        (None, Some(_)) => Err("client_key is given without client_cert".into()),
    }
}

fn roots(ca: Option<&[u8]>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    if let Some(pem) = ca {
        for certificate in certificates(pem, "ca")? {
            roots.add(certificate).map_err(|error| format!("ca: {error}"))?;
        }
        return Ok(roots);
    }
    let found = rustls_native_certs::load_native_certs();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        return Err("the operating system has no trusted certificates; give `ca`".into());
    }
    Ok(roots)
}

fn certificates(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| format!("{what} is not PEM: {error}"))?;
    if certificates.is_empty() {
        return Err(format!("{what} has no certificate"));
    }
    Ok(certificates)
}

impl TlsConfig {
    pub(super) async fn wrap(
        &self,
        address: &Address,
        stream: Box<dyn IoStream>,
    ) -> io::Result<Box<dyn IoStream>> {
        let (Some(config), Address::Tcp { host, .. }) = (&self.0, address) else {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "TLS needs a TCP address"));
        };
        let name = ServerName::try_from(host.clone())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let stream = TlsConnector::from(Arc::clone(config)).connect(name, stream).await?;
        Ok(Box::new(stream))
    }
}

impl fmt::Debug for TlsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsConfig").field("enabled", &self.0.is_some()).finish()
    }
}
