//! A worker's end of the connection to the driver.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::{mpsc, oneshot, watch};

use crate::message::{Load, Order, Report};
use crate::resource::Write;

/// The driver's current orders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) task: Task,
    pub(super) probes: bool,
    pub(super) watches: bool,
    pub(super) load: Option<Load>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Task {
    #[default]
    Idle,
    Acquire,
    Contend,
    Stop,
}

#[derive(Debug)]
pub(super) struct Link {
    lines: mpsc::UnboundedSender<String>,
    wanted: watch::Receiver<Wanted>,
    pending: Arc<Pending>,
    next: AtomicU64,
}

/// Writes without an answer.
type Pending = Mutex<HashMap<u64, oneshot::Sender<bool>>>;

impl Link {
    pub(super) async fn connect(driver: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(driver).await?;
        stream.set_nodelay(true)?;
        let (from, mut to) = stream.into_split();
        let (lines, mut queue) = mpsc::unbounded_channel::<String>();
        tokio::spawn(async move {
            while let Some(line) = queue.recv().await {
                if to.write_all(line.as_bytes()).await.is_err() {
                    return;
                }
            }
        });
        let (changes, wanted) = watch::channel(Wanted::default());
        let pending = Arc::<Pending>::default();
        tokio::spawn(read(from, changes, Arc::clone(&pending)));
        Ok(Self { lines, wanted, pending, next: AtomicU64::new(0) })
    }

    pub(super) fn report(&self, report: &Report) {
        let _ = self.lines.send(format!("{}\n", report.to_line()));
    }

    /// Returns whether the resource has accepted the write.
    pub(super) async fn write(&self, write: Write) -> bool {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        lock(&self.pending).insert(number, answer);
        self.report(&Report::Write(number, write));
        answered.await.unwrap_or(false)
    }

    pub(super) fn wanted(&self) -> Wanted {
        *self.wanted.borrow()
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.wanted().task == Task::Stop
    }

    /// Waits until the driver's orders satisfy a condition.
    pub(super) async fn until(&self, is: impl FnMut(&Wanted) -> bool) {
        let _ = self.wanted.clone().wait_for(is).await;
    }
}

async fn read(from: OwnedReadHalf, changes: watch::Sender<Wanted>, pending: Arc<Pending>) {
    let mut lines = BufReader::new(from).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Some(order) = Order::from_line(&line) else {
            eprintln!("an unknown order: {line:?}");
            continue;
        };
        changes.send_modify(|wanted| match order {
            Order::Acquire => wanted.task = Task::Acquire,
            Order::Release => wanted.task = Task::Idle,
            Order::Contend => wanted.task = Task::Contend,
            Order::Stop => wanted.task = Task::Stop,
            Order::Probe => wanted.probes = true,
            Order::Watch => wanted.watches = true,
            Order::Load(load) => wanted.load = Some(load),
            Order::Written(number, accepted) => {
                if let Some(answer) = lock(&pending).remove(&number) {
                    let _ = answer.send(accepted);
                }
            }
        });
    }
    // Without a driver the worker stops.
    changes.send_modify(|wanted| wanted.task = Task::Stop);
}

fn lock(pending: &Pending) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<bool>>> {
    pending.lock().unwrap_or_else(PoisonError::into_inner)
}
