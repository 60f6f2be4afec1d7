//! Servers at a distance: a forwarder delivers what each says late.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// The jitter of each piece of an answer, at most this share of the distance.
const JITTER: f64 = 0.25;

/// A forwarder to one server, in threads of its own: a timer of a runtime has steps of a millisecond.
#[derive(Debug)]
pub(crate) struct Distance {
    addr: SocketAddr,
    nanos: Arc<AtomicU64>,
    is_closed: Arc<AtomicBool>,
}

impl Distance {
    pub(crate) fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let addr = listener.local_addr().expect("it is bound");
        let (nanos, is_closed) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let forwarder = Self { addr, nanos: Arc::clone(&nanos), is_closed: Arc::clone(&is_closed) };
        thread::spawn(move || {
            for client in listener.incoming() {
                if is_closed.load(Ordering::SeqCst) {
                    return;
                }
                let forwarded = client.and_then(|client| forward(client, server, &nanos));
                forwarded.expect("the server is up");
            }
        });
        forwarder
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Sets the round trip, beside that of the system.
    pub(crate) fn set(&self, round_trip: Duration) {
        let nanos = u64::try_from(round_trip.as_nanos()).expect("less than a century");
        self.nanos.store(nanos, Ordering::Relaxed);
    }
}

impl Drop for Distance {
    fn drop(&mut self) {
        self.is_closed.store(true, Ordering::SeqCst);
        // So that the thread looks.
        let _ = TcpStream::connect(self.addr);
    }
}

/// Begins to forward both ways; each ends with its connection.
fn forward(client: TcpStream, server: SocketAddr, nanos: &Arc<AtomicU64>) -> io::Result<()> {
    let server = TcpStream::connect(server)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (to_client, from_server) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || copy_at_once(client, server));
    let (pieces, late) = mpsc::channel();
    let nanos = Arc::clone(nanos);
    thread::spawn(move || note_due(from_server, &nanos, &pieces));
    thread::spawn(move || deliver(&late, to_client));
    Ok(())
}

fn copy_at_once(mut from: TcpStream, mut to: TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Both);
}

/// A piece of an answer, and when it is due.
type Piece = (Instant, Vec<u8>);

/// Reads answers as they come. None overtakes another one.
fn note_due(mut from: TcpStream, nanos: &AtomicU64, pieces: &mpsc::Sender<Piece>) {
    let (mut buffer, mut latest, mut state) = ([0; 64 * 1024], Instant::now(), 1_u64);
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let distance = Duration::from_nanos(nanos.load(Ordering::Relaxed));
        // Knuth's multiplier; the upper bits are random enough.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let share = f64::from(u32::try_from(state >> 32).expect("32 bits")) / f64::from(u32::MAX);
        latest = latest.max(Instant::now() + distance.mul_f64(1.0 + JITTER * share));
        if pieces.send((latest, buffer[..length].to_vec())).is_err() {
            return;
        }
    }
}

fn deliver(pieces: &mpsc::Receiver<Piece>, mut to: TcpStream) {
    for (due, piece) in pieces {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if to.write_all(&piece).is_err() {
            return;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
