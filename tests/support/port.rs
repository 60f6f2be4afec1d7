//! Ports that stay ours while nobody listens on them.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{io, thread};

use super::wait::HANG_GUARD;

const PAUSE: Duration = Duration::from_millis(1);

/// Below the ports that systems hand out by themselves (from 32768 on Linux, from 49152 on macOS):
/// a port of a server that is down for a while can't become the local end of somebody's connection,
/// nor can a client connect to itself.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// A port that no other test process uses, nor this one for anything else, until it is dropped.
#[derive(Debug)]
pub struct Port {
    number: u16,
    /// The claim: the UDP port of the same number, which has one owner however TCP is used, and
    /// which the system takes back when the process ends.
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

/// A port without a listener. A stranger may still be faster, so whoever hands it to a server must
/// be ready to come back for another.
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

/// The next connection. A client that hung up early, or a want of descriptors, is no reason to stop
/// listening.
pub async fn accept(listener: &tokio::net::TcpListener) -> tokio::net::TcpStream {
    loop {
        match listener.accept().await {
            Ok((client, _)) => return client,
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}
