//! The worker processes, from the view of the program that starts them.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{env, fs, mem, thread};

use rustix::process::Signal;

use crate::ledger::{Entries, Event, Ledger};
use crate::message::{Order, Report};
use crate::support::port::{self, Port};
use crate::support::process::Process;
use crate::support::temp_dir::TempDir;
use crate::worker::WORKER;

/// Timeout for a set of blank servers, which waits for one TTL, and for a busy machine.
const READY_TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout for the end of a worker.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// Starts worker processes, sends them orders, and writes their reports to the ledger. The
/// processes end before their directory is removed.
#[derive(Debug)]
pub struct Driver {
    processes: Vec<Mutex<Process>>,
    port: Port,
    shared: Arc<Shared>,
    dir: TempDir,
}

#[derive(Debug, Default)]
struct Shared {
    ledger: Ledger,
    connections: Mutex<HashMap<usize, TcpStream>>,
}

impl Driver {
    /// Starts a process of this program for each client, which its words describe.
    pub fn start(clients: &[Vec<String>]) -> Result<Self, String> {
        let (listener, port) = port::listen();
        listener.set_nonblocking(false).map_err(|error| format!("driver: {error}"))?;
        let shared = Arc::<Shared>::default();
        let accepting = Arc::clone(&shared);
        let workers = clients.len();
        thread::spawn(move || accept(&listener, workers, &accepting));
        let mut driver = Self { processes: Vec::new(), port, shared, dir: TempDir::new() };
        let program = env::current_exe().map_err(|error| format!("this program: {error}"))?;
        let program = program.to_str().ok_or("this program's path is not UTF-8")?;
        for (worker, client) in clients.iter().enumerate() {
            let addr = driver.port.addr();
            let words = [program.into(), WORKER.into(), worker.to_string(), addr.to_string()];
            let command = [&words[..], client].concat();
            let process = Process::spawn(&command, &driver.log(worker));
            driver.processes.push(Mutex::new(process));
        }
        Ok(driver)
    }

    /// Waits until all workers have a quorum of servers.
    pub fn await_ready(&self) -> Result<(), String> {
        self.await_all(Event::Ready, READY_TIMEOUT)
    }

    /// The reports.
    pub fn ledger(&self) -> &Ledger {
        &self.shared.ledger
    }

    /// Sends an order to a worker.
    pub fn order(&self, worker: usize, order: Order) -> Result<(), String> {
        let sent = match self.shared.connections().get_mut(&worker) {
            Some(stream) => {
                let line = format!("{}\n", order.to_line());
                stream.write_all(line.as_bytes()).map_err(|error| error.to_string())
            }
            None => Err("not connected".into()),
        };
        sent.map_err(|problem| self.problem(worker, &problem))
    }

    /// Sends an order to all workers.
    pub fn order_all(&self, order: Order) -> Result<(), String> {
        (0..self.processes.len()).try_for_each(|worker| self.order(worker, order))
    }

    /// Sends a signal to a worker.
    pub fn signal(&self, worker: usize, signal: Signal) -> Result<(), String> {
        let mut process = lock(&self.processes[worker]);
        if process.has_ended() {
            return Err(self.problem(worker, "it has ended"));
        }
        process.signal(signal);
        Ok(())
    }

    /// Returns an error if a worker has ended.
    pub fn check(&self) -> Result<(), String> {
        for (worker, process) in self.processes.iter().enumerate() {
            if lock(process).has_ended() {
                return Err(self.problem(worker, "it has ended"));
            }
        }
        Ok(())
    }

    /// Makes the workers release their locks and end, and returns all reports.
    pub fn end(self) -> Result<Entries, String> {
        self.order_all(Order::Stop)?;
        self.await_all(Event::Ended, END_TIMEOUT)?;
        Ok(mem::take(&mut *self.ledger().entries()))
    }

    fn await_all(&self, event: Event, limit: Duration) -> Result<(), String> {
        for worker in 0..self.processes.len() {
            let reported = self.ledger().await_event(worker, event, limit);
            reported.map_err(|problem| self.problem(worker, &problem))?;
        }
        Ok(())
    }

    fn log(&self, worker: usize) -> PathBuf {
        self.dir.path().join(format!("worker-{worker}"))
    }

    /// Formats a problem of a worker, with its output.
    fn problem(&self, worker: usize, problem: &str) -> String {
        let output = fs::read_to_string(self.log(worker)).unwrap_or_default();
        format!("worker {worker}: {problem}: {}", output.trim())
    }
}

impl Drop for Driver {
    /// Ends a thread that still accepts connections.
    fn drop(&mut self) {
        let _ = TcpStream::connect(self.port.addr());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn connections(&self) -> MutexGuard<'_, HashMap<usize, TcpStream>> {
        lock(&self.connections)
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
                shared.connections().insert(worker, orders);
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
                Report::Observation(observation) => {
                    entries.observations.extend(from.map(|worker| (worker, observation)));
                }
                Report::Slow(what) => entries.slow.push(what),
                Report::Hello(_) | Report::Write(..) => {}
            }),
        }
    }
}
