//! Ports that stay reserved while there is no listener on them.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{io, thread};

use super::wait::HANG_GUARD;

const PAUSE: Duration = Duration::from_millis(1);

/// Below the ports that systems assign automatically (from 32768 on Linux, from 49152 on macOS). So
/// the port of a server that is down for a while can't become the local end of another connection,
/// and a client can't connect to itself.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// A port that no other test process uses, nor this one for anything else, until it is dropped.
#[derive(Debug)]
pub struct Port {
    number: u16,
    /// The reservation: the UDP port of the same number, which has one owner regardless of the use
    /// of TCP, and which the system releases when the process ends.
    _claim: UdpSocket,
}

impl Port {
    pub fn addr(&self) -> SocketAddr {
        address(self.number)
    }

    pub fn number(&self) -> u16 {
        self.number
    }
}

fn address(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// Returns a port without a listener. Another program may still be faster, so the caller that
/// passes it to a server must be able to retry with another port.
pub fn unused() -> Port {
    listen().1
}

/// A port and a listener on it.
pub fn listen() -> (TcpListener, Port) {
    // Starts at random, so that test processes running side by side rarely meet.
    static NEXT: LazyLock<AtomicU64> =
        LazyLock::new(|| AtomicU64::new(RandomState::new().hash_one(0)));
    for _ in 0..COUNT {
        let offset = NEXT.fetch_add(1, Ordering::Relaxed) % u64::from(COUNT);
        let number = FIRST + u16::try_from(offset).expect("less than COUNT");
        let Ok(claim) = UdpSocket::bind(address(number)) else { continue };
        let Ok(listener) = TcpListener::bind(address(number)) else { continue };
        listener.set_nonblocking(true).expect("a listener can be non-blocking");
        return (listener, Port { number, _claim: claim });
    }
    panic!("no free port from {FIRST} on");
}

/// Returns once connections to a closed listener are refused: a process that another thread is just
/// starting shares the listener for a moment, and keeps it open.
pub fn await_refusal(address: SocketAddr) {
    let started = Instant::now();
    let refused = || {
        let connected = TcpStream::connect_timeout(&address, HANG_GUARD);
        connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    };
    while !refused() && started.elapsed() < HANG_GUARD {
        thread::sleep(PAUSE);
    }
}

/// Accepts the next connection. Continues to listen if a client closed its connection early, or if
/// descriptors are short.
pub async fn accept(listener: &tokio::net::TcpListener) -> tokio::net::TcpStream {
    loop {
        match listener.accept().await {
            Ok((client, _)) => return client,
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}
