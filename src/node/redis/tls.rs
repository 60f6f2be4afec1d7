//! TLS over the connector's streams.

use std::{
    fmt,
    fs::File,
    io::{self, Read},
    path::Path,
    sync::Arc,
};

use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::{CryptoProvider, ring},
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    },
};

use super::{Address, Endpoint, IoStream, TlsOptions};
use crate::{error::BuildError, sync::Mutex};

/// The TLS configuration, if a node uses TLS.
#[derive(Clone)]
pub(crate) struct TlsConfig(Option<Arc<TlsClient>>);

struct TlsClient {
    options: TlsOptions,
    server_name: Option<ServerName<'static>>,
    /// The files' contents at the last read, and the configuration made from them.
    last: Mutex<(Pem, Arc<ClientConfig>)>,
}

/// Certificates and a key, given or read from files.
#[derive(PartialEq)]
struct Pem {
    ca: Option<Vec<u8>>,
    client_cert: Option<Vec<u8>>,
    client_key: Option<Vec<u8>>,
}

/// Maximum length of a file, in bytes.
const MAX_FILE: u64 = 4 * 1024 * 1024;

/// Reads certificates only if they are needed, as some machines have none.
pub(crate) fn tls_config(
    options: Option<&TlsOptions>,
    endpoints: &[Endpoint],
) -> Result<TlsConfig, BuildError> {
    if options.is_none() && !endpoints.iter().any(Endpoint::uses_tls) {
        return Ok(TlsConfig(None));
    }
    let is_socket = |at: &Endpoint| matches!(at.address(), Some(Address::Unix { .. }));
    // A URL with TLS for Sentinels states that their masters do not use TLS.
    let is_plain = |at: &&Endpoint| !at.uses_tls() && !is_socket(at) && options.is_some();
    if let Some(plain) = endpoints.iter().find(is_plain) {
        let reason = format!(
            "the connection to node {} would not use TLS: change its URL to rediss://, or remove the TLS options",
            plain.name
        );
        return Err(BuildError::Tls { reason });
    }
    let client = TlsClient::new(options.cloned().unwrap_or_default());
    let client = client.map_err(|reason| BuildError::Tls { reason })?;
    Ok(TlsConfig(Some(Arc::new(client))))
}

impl TlsClient {
    fn new(options: TlsOptions) -> Result<Self, String> {
        let server_name = match &options.server_name {
            None => None,
            Some(name) => Some(
                ServerName::try_from(name.clone())
                    .map_err(|_| format!("server_name {name} is neither a name nor an address"))?,
            ),
        };
        let pem = Pem::read(&options)?;
        let config = Arc::new(client_config(&pem)?);
        Ok(Self { options, server_name, last: Mutex::new((pem, config)) })
    }

    /// Returns the configuration for the current contents of the files.
    fn reread(&self) -> Result<Arc<ClientConfig>, String> {
        let pem = Pem::read(&self.options)?;
        let mut last = crate::sync::lock(&self.last);
        if last.0 != pem {
            let config = Arc::new(client_config(&pem)?);
            *last = (pem, config);
        }
        Ok(Arc::clone(&last.1))
    }

    fn has_files(&self) -> bool {
        let TlsOptions { ca_file, client_cert_file, client_key_file, .. } = &self.options;
        [ca_file, client_cert_file, client_key_file].into_iter().any(Option::is_some)
    }
}

impl Pem {
    fn read(options: &TlsOptions) -> Result<Self, String> {
        Ok(Self {
            ca: given("ca", options.ca.as_ref(), options.ca_file.as_deref())?,
            client_cert: given(
                "client_cert",
                options.client_cert.as_ref(),
                options.client_cert_file.as_deref(),
            )?,
            client_key: given(
                "client_key",
                options.client_key.as_ref(),
                options.client_key_file.as_deref(),
            )?,
        })
    }
}

fn given(
    what: &str,
    text: Option<&Vec<u8>>,
    file: Option<&Path>,
) -> Result<Option<Vec<u8>>, String> {
    let Some(path) = file else { return Ok(text.cloned()) };
    if text.is_some() {
        return Err(format!("{what} is given as text and as a file"));
    }
    let unusable =
        |why: &dyn fmt::Display| format!("{what} can't be read from {}: {why}", path.display());
    let mut pem = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut pem))
        .map_err(|error| unusable(&error))?;
    if pem.len() as u64 > MAX_FILE {
        return Err(unusable(&format_args!("it has more than {MAX_FILE} bytes")));
    }
    Ok(Some(pem))
}

fn client_config(pem: &Pem) -> Result<ClientConfig, String> {
    // A default provider that the program installed takes precedence; this crate installs none.
    let provider = CryptoProvider::get_default()
        .map_or_else(|| Arc::new(ring::default_provider()), Arc::clone);
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots(pem.ca.as_deref())?);
    match (&pem.client_cert, &pem.client_key) {
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
        let (Some(client), Address::Tcp { host, .. }) = (&self.0, address) else {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "TLS needs a TCP address"));
        };
        let name = match &client.server_name {
            Some(name) => name.clone(),
            None => ServerName::try_from(host.clone())
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?,
        };
        let config = if client.has_files() {
            let client = Arc::clone(client);
            // A slow disk must not block the thread that sends renewals.
            let reading = tokio::task::spawn_blocking(move || client.reread());
            reading.await.map_err(io::Error::other)?.map_err(io::Error::other)?
        } else {
            Arc::clone(&crate::sync::lock(&client.last).1)
        };
        let stream = TlsConnector::from(config).connect(name, stream).await?;
        Ok(Box::new(stream))
    }
}

/// Returns whether the server's reply was not TLS.
pub(super) fn is_no_tls(error: &io::Error) -> bool {
    let inner =
        error.get_ref().and_then(|inner| inner.downcast_ref::<tokio_rustls::rustls::Error>());
    matches!(inner, Some(tokio_rustls::rustls::Error::InvalidMessage(_)))
}

impl fmt::Debug for TlsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsConfig").field("enabled", &self.0.is_some()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificate_needs_its_key() {
        let pem = || Some(b"x".to_vec());
        let error = |options| TlsClient::new(options).err().expect("an error");
        let options = TlsOptions::new().ca(include_bytes!("../../../tests/servers/tls/ca.pem"));
        let without_key = TlsOptions { client_cert: pem(), ..options.clone() };
        assert!(error(without_key).contains("without client_key"));
        let without_cert = TlsOptions { client_key: pem(), ..options };
        assert!(error(without_cert).contains("without client_cert"));
    }
}
