//! The cost of a shared lock without a network, while the process has a shared lease of the name: beside
//! exclusive locks of names that no other task wants.

use std::{convert::Infallible, hint::black_box, time::Instant};

use tokio::{
    runtime::{Builder, Runtime},
    task::{JoinSet, yield_now},
};
use tower::{Layer, Service, ServiceExt, service_fn};
use tower_redlock::{LockOptions, Redlock, RedlockLayer, node::EmbeddedNodes};

use super::layer::{ALLOCATIONS, BYTES, TIME};
use crate::{counter::Counter, options::Options, report::format::time, samples::emit};

/// Numbers of tasks. If there are several, each holds its lock until all others had the processor.
pub(crate) const TASKS: [u32; 2] = [1, 64];
const NODES: usize = 3;
/// A measurement is short, so there are more of them than with servers.
const TURNS: usize = 5;
const WARM_UP: u32 = 2_048;
const REQUESTS: u32 = 20_480;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The service alone.
    Bare,
    Layer {
        shared: bool,
    },
    /// `lock()` and drop.
    Lock {
        shared: bool,
    },
}

impl Subject {
    pub(crate) const ALL: [Self; 5] = [
        Self::Bare,
        Self::Layer { shared: false },
        Self::Layer { shared: true },
        Self::Lock { shared: false },
        Self::Lock { shared: true },
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Bare => "the service alone",
            Self::Layer { shared: false } => "`RedlockLayer`, a name each",
            Self::Layer { shared: true } => "`RedlockLayer`, shared",
            Self::Lock { shared: false } => "`lock()` and drop, a name each",
            Self::Lock { shared: true } => "`lock().shared()` and drop",
        }
    }

    const fn is_shared(self) -> bool {
        matches!(self, Self::Layer { shared: true } | Self::Lock { shared: true })
    }

    /// Returns the name that a request locks, newly allocated.
    fn lock_name(self, request: u32) -> String {
        if self.is_shared() { name(0) } else { name(request) }
    }
}

pub(crate) fn case(tasks: u32) -> String {
    let tasks = super::tasks(usize::try_from(tasks).expect("a few"));
    format!("{tasks}, {NODES} embedded nodes")
}

pub(crate) fn measure(counter: &Counter, options: &Options) {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    for tasks in TASKS {
        for _ in 0..TURNS {
            options.rounds(&Subject::ALL, |subject| measure_one(&runtime, subject, tasks, counter));
        }
    }
}

fn measure_one(runtime: &Runtime, subject: Subject, tasks: u32, counter: &Counter) {
    runtime.block_on(async {
        let nodes = EmbeddedNodes::new(NODES);
        let redlock = Redlock::builder().nodes_from(&nodes).build().expect("valid settings");
        // The lease that the others join.
        let standing = redlock.lock(name(0)).shared().await.expect("nobody else has it");
        run(subject, &redlock, tasks, WARM_UP).await;
        let started = Instant::now();
        run(subject, &redlock, tasks, REQUESTS).await;
        let seconds = started.elapsed().as_secs_f64() / f64::from(REQUESTS);
        counter.begin();
        run(subject, &redlock, tasks, REQUESTS).await;
        drop(standing);
        // Work in the background belongs to the measurement.
        redlock.shutdown().await;
        let [allocations, bytes] = counter.end().per(REQUESTS);
        let (case, who) = (case(tasks), subject.name());
        eprintln!("  {case}, {who}: {}, {allocations:.2} allocations", time(seconds));
        emit(&case, who, TIME, seconds);
        emit(&case, who, ALLOCATIONS, allocations);
        emit(&case, who, BYTES, bytes);
    });
}

/// Has each of the tasks make its part of the requests.
async fn run(subject: Subject, redlock: &Redlock, tasks: u32, requests: u32) {
    if tasks == 1 {
        return repeat(subject, redlock.clone(), 1..=requests, false).await;
    }
    let mut all = JoinSet::new();
    for task in 0..tasks {
        let first = task * (requests / tasks) + 1;
        let numbers = first..=first + requests / tasks - 1;
        all.spawn(repeat(subject, redlock.clone(), numbers, true));
    }
    all.join_all().await;
}

/// Makes requests one after the other, each of which yields to other tasks under its lock if `yields`.
async fn repeat(
    subject: Subject,
    redlock: Redlock,
    requests: impl Iterator<Item = u32>,
    yields: bool,
) {
    let service = service_fn(move |request: u32| async move {
        if yields {
            yield_now().await;
        }
        Ok::<_, Infallible>(request)
    });
    let options = LockOptions::new().shared(subject.is_shared());
    match subject {
        Subject::Bare => call(service, requests).await,
        Subject::Layer { .. } => {
            let key = move |request: &u32| subject.lock_name(*request);
            let layer = RedlockLayer::new(redlock, key).options(options);
            call(layer.layer(service), requests).await;
        }
        Subject::Lock { .. } => {
            for request in requests {
                let request = redlock.lock(subject.lock_name(black_box(request))).options(options);
                let lock = request.await.expect("nobody else has it");
                if yields {
                    yield_now().await;
                }
                drop(lock);
            }
        }
    }
}

fn name(number: u32) -> String {
    format!("account:{number}")
}

async fn call<S>(mut service: S, requests: impl Iterator<Item = u32>)
where
    S: Service<u32, Error: std::fmt::Debug>,
{
    for request in requests {
        let ready = service.ready().await.expect("it always is");
        black_box(ready.call(black_box(request)).await.expect("nobody else has it"));
    }
}
