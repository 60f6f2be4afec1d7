//! Servers at a distance: a forwarder delays the answers of each.

use std::{
    io::{self, Read, Write},
    mem,
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// Maximum relative change of the round trip, up and down.
const JITTER: f64 = 0.2;

/// A forwarder to one server, in its own threads, as the timers of a runtime have steps of a
/// millisecond.
#[derive(Debug)]
pub(crate) struct Forwarder {
    addr: SocketAddr,
    path: Arc<Path>,
    is_closed: Arc<AtomicBool>,
}

/// The state shared by the connections to one server.
#[derive(Debug)]
struct Path {
    round_trip_nanos: AtomicU64,
    started: Instant,
    /// The seed of the variation, different for each server.
    seed: u64,
    /// The delay with which each piece was written beyond its due time, in seconds.
    lateness: Mutex<Vec<f64>>,
}

impl Forwarder {
    pub(crate) fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let addr = listener.local_addr().expect("it is bound");
        let path = Arc::new(Path {
            round_trip_nanos: AtomicU64::new(0),
            started: Instant::now(),
            seed: addr.port().into(),
            lateness: Mutex::default(),
        });
        let is_closed = Arc::<AtomicBool>::default();
        let this = Self { addr, path: Arc::clone(&path), is_closed: Arc::clone(&is_closed) };
        thread::spawn(move || {
            for client in listener.incoming() {
                if is_closed.load(Ordering::SeqCst) {
                    return;
                }
                let forwarded = client.and_then(|client| forward(client, server, &path));
                forwarded.expect("the server is up");
            }
        });
        this
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Sets the mean round trip, to which the system's own round trip adds.
    pub(crate) fn set(&self, round_trip: Duration) {
        let nanos = u64::try_from(round_trip.as_nanos()).expect("less than a century");
        self.path.round_trip_nanos.store(nanos, Ordering::Relaxed);
    }

    /// Returns the delay of each piece since the last call, in seconds.
    pub(crate) fn take_lateness(&self) -> Vec<f64> {
        mem::take(&mut self.path.lateness.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.is_closed.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.addr);
    }
}

/// Starts to forward in both directions; each ends with its connection.
fn forward(client: TcpStream, server: SocketAddr, path: &Arc<Path>) -> io::Result<()> {
    let server = TcpStream::connect(server)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (to_client, from_server) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || copy_at_once(client, server));
    let (pieces, late) = mpsc::channel();
    let (reads, writes) = (Arc::clone(path), Arc::clone(path));
    thread::spawn(move || read_answers(from_server, &reads, &pieces));
    thread::spawn(move || deliver(&late, to_client, &writes));
    Ok(())
}

fn copy_at_once(mut from: TcpStream, mut to: TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Both);
}

/// A piece of an answer, and its due time.
type Piece = (Instant, Vec<u8>);

fn read_answers(mut from: TcpStream, path: &Path, pieces: &mpsc::Sender<Piece>) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let now = Instant::now();
        if pieces.send((now + path.delay(now), buffer[..length].to_vec())).is_err() {
            return;
        }
    }
}

fn deliver(pieces: &mpsc::Receiver<Piece>, mut to: TcpStream, path: &Path) {
    precise_sleep();
    for (due, piece) in pieces {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let late = due.elapsed().as_secs_f64();
        if to.write_all(&piece).is_err() {
            return;
        }
        path.lateness.lock().unwrap_or_else(PoisonError::into_inner).push(late);
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// Makes sleeps of this thread end when they are due, not up to 50 µs later.
fn precise_sleep() {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

impl Path {
    /// Returns the delay of an answer that arrives now. It depends on the time only, so that it is
    /// the same for all clients, with few answers or many. Each round trip has one random value,
    /// and the delay is linear between two of them. It decreases more slowly than time passes, so
    /// no answer is due before an earlier one.
    fn delay(&self, now: Instant) -> Duration {
        let round_trip = Duration::from_nanos(self.round_trip_nanos.load(Ordering::Relaxed));
        if round_trip.is_zero() {
            return Duration::ZERO;
        }
        let elapsed = now.duration_since(self.started).as_nanos();
        let (number, rest) = (elapsed / round_trip.as_nanos(), elapsed % round_trip.as_nanos());
        let number = u64::try_from(number).expect("less than a century");
        let rest = Duration::from_nanos(u64::try_from(rest).expect("less than a round trip"));
        let share = rest.as_secs_f64() / round_trip.as_secs_f64();
        let [from, to] = [number, number + 1].map(|number| noise(self.seed, number));
        round_trip.mul_f64(1.0 + JITTER * (from + (to - from) * share))
    }
}

/// Returns a random value from −1 to 1, the same at each call.
fn noise(seed: u64, number: u64) -> f64 {
    // SplitMix64.
    let mut bits = (seed << 40).wrapping_add(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let upper = u32::try_from((bits ^ (bits >> 31)) >> 32).expect("32 bits");
    f64::from(upper) / f64::from(u32::MAX) * 2.0 - 1.0
}
