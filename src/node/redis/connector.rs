//! Opens streams to servers.

use std::{
    fmt,
    future::Future,
    io,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    pin::Pin,
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};

/// The address of a server.
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

impl Address {
    /// Returns whether a text can be a host: a name, an IPv4 or an IPv6 address.
    pub(super) fn is_host(text: &str) -> bool {
        let is_of_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
        !text.is_empty() && text.chars().all(is_of_host)
    }
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

/// Addresses that are being looked up.
pub type LookingUp = Pin<Box<dyn Future<Output = io::Result<Vec<Address>>> + Send>>;

/// Opens the stream to a server: a seam for proxies, tunnels and simulated networks.
///
/// TLS is added on top of the stream.
pub trait Connector: fmt::Debug + Send + Sync + 'static {
    /// Opens a stream. The future is dropped if it takes too long.
    ///
    /// A stream that is dropped should lose the bytes that the server has not received: a command
    /// that arrives long after may store the key of a lock that was released, which is then locked
    /// until its release is repeated.
    fn connect(&self, address: &Address) -> Connecting;

    /// Looks up all addresses of the host name of a Sentinel or of a node of a Cluster, each of
    /// which is queried. [`connect`](Self::connect) gets each address, and certificates are
    /// verified against the name. The future is dropped if it takes too long. If the lookup fails,
    /// the crate connects to the name itself.
    ///
    /// Default: the given address alone.
    fn addresses(&self, address: &Address) -> LookingUp {
        let address = address.clone();
        Box::pin(async move { Ok(vec![address]) })
    }

    /// Returns whether [`connect`](Self::connect) opens sockets as [`SocketConnector`] does. The crate then opens them
    /// itself, and also writes to them on other threads than that of its connections.
    #[doc(hidden)]
    fn opens_sockets(&self) -> bool {
        false
    }
}

/// Sockets of the operating system: TCP with `TCP_NODELAY` and keep-alive, and Unix sockets. A TCP
/// connection is reset when it is dropped, so that no command is delivered later.
///
/// The addresses of a host name are tried in parallel, IPv6 and IPv4 in turn, each 250 ms after the
/// previous one or as soon as that failed (RFC 8305). The first stream that connects is used.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct SocketConnector;

impl SocketConnector {
    /// Creates the connector.
    pub const fn new() -> Self {
        Self
    }
}

/// With this setting, the kernel detects a vanished peer within about 25 s.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// Delay before the next address is tried as well (RFC 8305, section 5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Returns the first stream that connects, or the last error.
async fn first_of<T, F>(
    addresses: Vec<SocketAddr>,
    connect: impl Fn(SocketAddr) -> F,
) -> io::Result<T>
where
    F: Future<Output = io::Result<T>>,
{
    let mut waiting = addresses.into_iter();
    let mut under_way = FuturesUnordered::new();
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    loop {
        under_way.extend(waiting.next().map(&connect));
        tokio::select! {
            biased;
            connected = under_way.next() => match connected {
                Some(Ok(stream)) => return Ok(stream),
                Some(Err(error)) => failed = error,
                None => return Err(failed),
            },
            () = tokio::time::sleep(ATTEMPT_DELAY), if waiting.len() > 0 => {}
        }
    }
}

/// Opens a TCP connection.
pub(super) async fn open_socket(host: &str, port: u16) -> io::Result<TcpStream> {
    let found = tokio::net::lookup_host((host, port)).await;
    let found = found.map_err(UnknownHost::of)?;
    let stream = first_of(by_turns(found), TcpStream::connect).await?;
    stream.set_nodelay(true)?;
    let keepalive =
        socket2::TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_INTERVAL);
    let socket = socket2::SockRef::from(&stream);
    socket.set_tcp_keepalive(&keepalive)?;
    // A connection is closed once everything is answered, or because the server or the network hangs.
    // The system would then go on to send what the server has not received, and deliver acquires of
    // leases that are long released.
    socket.set_linger(Some(Duration::ZERO))?;
    Ok(stream)
}

/// Interleaves the addresses of both families, beginning with the first address's family.
fn by_turns(addresses: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let mut addresses = addresses.peekable();
    let ipv6_first = addresses.peek().is_some_and(SocketAddr::is_ipv6);
    let (first, second): (Vec<_>, Vec<_>) = addresses.partition(|at| at.is_ipv6() == ipv6_first);
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    std::iter::from_fn(|| Some([first.next(), second.next()]))
        .take_while(|pair| pair.iter().any(Option::is_some))
        .flatten()
        .flatten()
        .collect()
}

/// The error of a host name without an address; waiting does not help.
#[derive(Debug)]
pub(super) struct UnknownHost(io::Error);

impl UnknownHost {
    /// A temporary failure of the resolver differs only in its text.
    fn of(error: io::Error) -> io::Error {
        let is_passing = error.to_string().to_ascii_lowercase().contains("temporary");
        if is_passing { error } else { io::Error::new(error.kind(), Self(error)) }
    }
}

impl fmt::Display for UnknownHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for UnknownHost {}

impl Connector for SocketConnector {
    fn connect(&self, address: &Address) -> Connecting {
        let address = address.clone();
        Box::pin(async move {
            match address {
                Address::Tcp { host, port } => {
                    Ok(Box::new(open_socket(&host, port).await?) as Box<dyn IoStream>)
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

    fn opens_sockets(&self) -> bool {
        true
    }

    fn addresses(&self, address: &Address) -> LookingUp {
        let address = address.clone();
        Box::pin(async move {
            let Address::Tcp { host, port } = &address else { return Ok(vec![address]) };
            if host.parse::<IpAddr>().is_ok() {
                return Ok(vec![address]);
            }
            let found = tokio::net::lookup_host((host.as_str(), *port)).await?;
            let at = |at: SocketAddr| Address::Tcp { host: at.ip().to_string(), port: at.port() };
            Ok(by_turns(found).into_iter().map(at).collect())
        })
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, sleep};

    use super::*;

    const DEAD: &str = "[2001:db8::1]:1";
    const REFUSING: &str = "192.0.2.1:1";
    const SLOW: &str = "[2001:db8::2]:1";
    const GOOD: &str = "192.0.2.2:1";

    fn addresses(all: &[&str]) -> Vec<SocketAddr> {
        all.iter().map(|at| at.parse().unwrap()).collect()
    }

    /// The address that answered, and the time that it took.
    async fn first(all: &[&str]) -> (io::Result<SocketAddr>, Duration) {
        let begun = Instant::now();
        let connect = |at: SocketAddr| async move {
            match at.to_string().as_str() {
                DEAD => std::future::pending().await,
                REFUSING => Err(io::ErrorKind::ConnectionRefused.into()),
                SLOW => {
                    sleep(Duration::from_secs(1)).await;
                    Ok(at)
                }
                _ => Ok(at),
            }
        };
        (first_of(addresses(all), connect).await, begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn dead_address_does_not_hide_a_good_one() {
        for (all, answers, after) in [
            (&[GOOD, DEAD][..], GOOD, Duration::ZERO),
            (&[DEAD, GOOD], GOOD, ATTEMPT_DELAY),
            (&[DEAD, DEAD, DEAD, GOOD], GOOD, 3 * ATTEMPT_DELAY),
            (&[REFUSING, GOOD], GOOD, Duration::ZERO),
            (&[DEAD, REFUSING, GOOD], GOOD, ATTEMPT_DELAY),
            (&[SLOW, GOOD], GOOD, ATTEMPT_DELAY),
            (&[SLOW, DEAD], SLOW, Duration::from_secs(1)),
            (&[SLOW, REFUSING], SLOW, Duration::from_secs(1)),
        ] {
            let (answered, took) = first(all).await;
            assert_eq!(answered.unwrap().to_string(), answers, "{all:?}");
            assert!(took >= after && took < after + Duration::from_millis(10), "{all:?} {took:?}");
        }
    }

    #[tokio::test]
    async fn host_names_alone_are_looked_up() {
        let tcp = |host: &str| Address::Tcp { host: host.into(), port: 7 };
        let found = async |address: &Address| SocketConnector::new().addresses(address).await;

        for address in [tcp("192.0.2.1"), tcp("2001:db8::1"), Address::Unix { path: "/s".into() }] {
            assert_eq!(found(&address).await.unwrap(), [address]);
        }

        let local = found(&tcp("localhost")).await.unwrap();
        assert!(
            local.contains(&tcp("127.0.0.1")) && !local.contains(&tcp("localhost")),
            "{local:?}"
        );
        assert!(found(&tcp("x.invalid")).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn last_failure_is_returned() {
        let (refused, _) = first(&[REFUSING, REFUSING]).await;
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        assert!(first(&[]).await.0.is_err());
    }

    #[test]
    fn resolvers_out_of_reach_may_return() {
        for (text, is_known) in [
            ("failed to lookup address information: Name or service not known", true),
            ("failed to lookup address information: Temporary failure in name resolution", false),
        ] {
            let error = UnknownHost::of(io::Error::other(text));
            let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<UnknownHost>());
            assert_eq!((inner.is_some(), error.to_string().as_str()), (is_known, text));
        }
    }

    #[test]
    fn families_take_turns() {
        let ordered = |all: &[&str]| by_turns(addresses(all).into_iter());
        let (six, four) = (["[::1]:1", "[::2]:1", "[::3]:1"], ["1.1.1.1:1", "1.1.1.2:1"]);
        let found = [six[0], six[1], six[2], four[0], four[1]];
        let expected = [six[0], four[0], six[1], four[1], six[2]];
        assert_eq!(ordered(&found), addresses(&expected));
        let found = [four[0], four[1], six[0]];
        assert_eq!(ordered(&found), addresses(&[four[0], six[0], four[1]]));
        assert_eq!(ordered(&[]), []);
    }
}
