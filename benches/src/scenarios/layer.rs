//! The cost of the layer for a request without a network: over nodes inside the process, around a
//! service that responds at once.

use std::{
    convert::Infallible,
    fmt::Debug,
    future::{Ready, ready},
    hint::black_box,
    time::Instant,
};

use tokio::runtime::{Builder, Runtime};
use tower::{Layer, Service, ServiceExt, service_fn, util::ServiceFn};
use tower_redlock::{Redlock, RedlockLayer, node::EmbeddedNodes};

use crate::{counter::Counter, options::Options, report::format::time, samples::emit};

pub(crate) const CASE: &str = "a request without network";
/// The reported quantities, by the names that the report uses.
pub(crate) const TIME: &str = "seconds";
pub(crate) const ALLOCATIONS: &str = "allocations";
pub(crate) const BYTES: &str = "bytes";

/// A measurement is short, so there are more of them than with servers.
const TURNS: usize = 5;
const WARM_UP: u32 = 2_000;
const REQUESTS: u32 = 20_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Bare,
    /// The layer over this number of nodes.
    Layer(usize),
    /// `lock()` and drop, over this number of nodes.
    Lock(usize),
}

impl Subject {
    pub(crate) const ALL: [Self; 5] =
        [Self::Bare, Self::Layer(3), Self::Layer(5), Self::Lock(3), Self::Lock(5)];

    pub(crate) fn name(self) -> String {
        match self {
            Self::Bare => "the service alone".into(),
            Self::Layer(nodes) => format!("`RedlockLayer` over {nodes} embedded nodes"),
            Self::Lock(nodes) => format!("`lock()` and drop over {nodes} embedded nodes"),
        }
    }

    const fn nodes(self) -> usize {
        match self {
            // This case uses no node.
            Self::Bare => 1,
            Self::Layer(nodes) | Self::Lock(nodes) => nodes,
        }
    }
}

pub(crate) fn measure(counter: &Counter, options: &Options) {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    for _ in 0..TURNS {
        options.rounds(&Subject::ALL, |subject| measure_one(&runtime, subject, counter));
    }
}

fn measure_one(runtime: &Runtime, subject: Subject, counter: &Counter) {
    runtime.block_on(async {
        let nodes = EmbeddedNodes::new(subject.nodes());
        let redlock = Redlock::builder().nodes_from(&nodes).build().expect("valid settings");
        run(subject, &redlock, WARM_UP).await;
        let started = Instant::now();
        run(subject, &redlock, REQUESTS).await;
        let seconds = started.elapsed().as_secs_f64() / f64::from(REQUESTS);
        counter.begin();
        run(subject, &redlock, REQUESTS).await;
        // Work in the background belongs to the measurement.
        redlock.shutdown().await;
        let [allocations, bytes] = counter.end().per(REQUESTS);
        let who = subject.name();
        eprintln!("  {CASE}, {who}: {}, {allocations:.2} allocations", time(seconds));
        emit(CASE, &who, TIME, seconds);
        emit(CASE, &who, ALLOCATIONS, allocations);
        emit(CASE, &who, BYTES, bytes);
    });
}

async fn run(subject: Subject, redlock: &Redlock, requests: u32) {
    match subject {
        Subject::Bare => call(service(), requests).await,
        Subject::Layer(_) => {
            let layer = RedlockLayer::new(redlock.clone(), |request: &u32| name(*request));
            call(layer.layer(service()), requests).await;
        }
        Subject::Lock(_) => {
            for request in 0..requests {
                let lock = redlock.lock(name(black_box(request))).await;
                drop(lock.expect("nobody else has it"));
            }
        }
    }
}

/// Returns the key of a request as a newly allocated string.
fn name(request: u32) -> String {
    format!("account:{request}")
}

type Answer = Ready<Result<u32, Infallible>>;

fn service() -> ServiceFn<fn(u32) -> Answer> {
    service_fn(|request| ready(Ok(request)))
}

/// Sends the requests one after the other.
async fn call<S>(mut service: S, requests: u32)
where
    S: Service<u32, Error: Debug>,
{
    for request in 0..requests {
        let ready = service.ready().await.expect("it always is");
        black_box(ready.call(black_box(request)).await.expect("nobody else has it"));
    }
}
