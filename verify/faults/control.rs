//! The driver's end of the connections to the workers.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use tower_redlock_verify::support::port::{self, Port};

use crate::ledger::Ledger;
use crate::message::{Order, Report};

/// Writes the workers' reports to the ledger.
#[derive(Debug)]
pub(crate) struct Control {
    port: Port,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    ledger: Ledger,
    workers: Mutex<HashMap<usize, TcpStream>>,
}

impl Control {
    pub(crate) fn start(workers: usize) -> Result<Self, String> {
        let (listener, port) = port::listen();
        listener.set_nonblocking(false).map_err(|error| format!("control: {error}"))?;
        let shared = Arc::<Shared>::default();
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accept(&listener, workers, &accepting));
        Ok(Self { port, shared })
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.shared.ledger
    }

    pub(crate) fn order(&self, worker: usize, order: Order) -> Result<(), String> {
        let mut workers = self.shared.workers();
        let stream = workers.get_mut(&worker).ok_or(format!("worker {worker} is not connected"))?;
        let line = format!("{}\n", order.to_line());
        stream.write_all(line.as_bytes()).map_err(|error| format!("worker {worker}: {error}"))
    }
}

impl Drop for Control {
    /// Ends a thread that still accepts connections.
    fn drop(&mut self) {
        let _ = TcpStream::connect(self.addr());
    }
}

impl Shared {
    fn workers(&self) -> MutexGuard<'_, HashMap<usize, TcpStream>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn accept(listener: &TcpListener, workers: usize, shared: &Arc<Shared>) {
    for _ in 0..workers {
        let Ok((stream, _)) = listener.accept() else { return };
        let shared = Arc::clone(shared);
        thread::spawn(move || listen(stream, &shared));
    }
}

/// Returns when the worker has closed its end.
fn listen(stream: TcpStream, shared: &Shared) {
    let (Ok(()), Ok(mut answers)) = (stream.set_nodelay(true), stream.try_clone()) else { return };
    let mut from = None;
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { return };
        let Some(report) = Report::from_line(&line) else {
            eprintln!("  a worker reported {line:?}");
            continue;
        };
        match report {
            Report::Hello(worker) => {
                let Ok(orders) = answers.try_clone() else { return };
                shared.workers().insert(worker, orders);
                from = Some(worker);
            }
            Report::Write(number, write) => {
                let accepted = shared.ledger.update(|entries| entries.resource.write(&write));
                let answer = format!("{}\n", Order::Written(number, accepted).to_line());
                if answers.write_all(answer.as_bytes()).is_err() {
                    return;
                }
            }
            report => shared.ledger.update(|entries| match report {
                Report::Event(event) => entries.events.extend(from.map(|worker| (worker, event))),
                Report::Hold(hold) => entries.holds.push(hold),
                Report::Attempt(attempt) => entries.attempts.push(attempt),
                Report::Slow(what) => entries.slow.push(what),
                Report::Hello(_) | Report::Write(..) => {}
            }),
        }
    }
}
