use std::{fmt, future::Future, io, path::PathBuf, pin::Pin, time::Duration};

use tokio::io::{AsyncRead, AsyncWrite};

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Address {
    /// A TCP port.
    Tcp {
        /// Host name or IP address.
        host: String,
        /// Port.
        port: u16,
    },
    /// A Unix domain socket.
    Unix {
        /// The socket's path.
        path: PathBuf,
    },
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix { path } => write!(f, "{}", path.display()),
        }
    }
}

/// A byte stream to a server.
pub trait IoStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> IoStream for T {}

/// A stream that is being opened.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<Box<dyn IoStream>>> + Send>>;

/// Opens the stream to a server: a seam for proxies, tunnels and simulated networks.
///
/// TLS is spoken on top of what it opens.
pub trait Connector: fmt::Debug + Send + Sync + 'static {
    /// Opens a stream. Given up, by dropping the future, when it takes too long.
    fn connect(&self, address: &Address) -> Connecting;
}

/// Sockets of the operating system: TCP with `TCP_NODELAY` and keep-alive, and Unix sockets.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct SocketConnector;

impl SocketConnector {
    /// The operating system's sockets.
    pub const fn new() -> Self {
        Self
    }
}

/// The kernel finds out within about 25 s that the other side is gone without a word.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);

impl Connector for SocketConnector {
    fn connect(&self, address: &Address) -> Connecting {
        let address = address.clone();
        Box::pin(async move {
            match address {
                Address::Tcp { host, port } => {
                    let stream = tokio::net::TcpStream::connect((host.as_str(), port)).await?;
                    stream.set_nodelay(true)?;
                    let keepalive = socket2::TcpKeepalive::new()
                        .with_time(KEEPALIVE_IDLE)
                        .with_interval(KEEPALIVE_INTERVAL);
                    socket2::SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
                    Ok(Box::new(stream) as Box<dyn IoStream>)
                }
                #[cfg(unix)]
                Address::Unix { path } => {
                    let stream = tokio::net::UnixStream::connect(path).await?;
                    Ok(Box::new(stream) as Box<dyn IoStream>)
                }
                #[cfg(not(unix))]
                Address::Unix { .. } => Err(io::ErrorKind::Unsupported.into()),
            }
        })
    }
}
