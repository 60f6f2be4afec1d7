//! Requests over HTTP to a service with a lock around each.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::{Request, StatusCode, client::conn::http1};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, runtime::Runtime, task::JoinSet};

use crate::{
    cycles::WARM_UP,
    options::Options,
    report::format::{significant, time},
    samples::emit,
    servers::Servers,
    service::{Guard, Service},
    spread::rank,
};

pub(crate) const CONNECTIONS: [usize; 2] = [1, 64];

pub(crate) fn case(connections: usize) -> String {
    if connections == 1 { "1 connection".into() } else { format!("{connections} connections") }
}

/// The reported quantities, by the names that the report uses. Times are in seconds.
pub(crate) const RATE: &str = "requests per s";
pub(crate) const P50: &str = "p50 of a request";
pub(crate) const P99: &str = "p99 of a request";
/// Processor time per request.
pub(crate) const PROCESSOR: &str = "service's processor time";
/// Processor time per request, of all servers together.
pub(crate) const SERVERS: &str = "servers' processor time";

pub(crate) fn measure(_: &Servers, options: &Options) {
    let [servers] = Servers::start([3]);
    for connections in CONNECTIONS {
        options.rounds(&Guard::ALL, |guard| {
            measure_one(&servers, guard, connections, options.time);
        });
    }
}

fn measure_one(servers: &Servers, guard: Guard, connections: usize, time_of_all: Duration) {
    let service = Service::start(guard, &servers.urls());
    let used = || [service.processor_time(), servers.processor_time()];
    let runtime = Runtime::new().expect("the system gives threads");
    let (mut times, elapsed, used) = runtime.block_on(async {
        run(&service, connections, WARM_UP).await;
        let (before, begun) = (used(), Instant::now());
        let times = run(&service, connections, time_of_all).await;
        let (elapsed, after) = (begun.elapsed(), used());
        let used = [0, 1].map(|i| Some(after[i]?.saturating_sub(before[i]?).as_secs_f64()));
        (times, elapsed, used)
    });
    drop((runtime, service));
    servers.settle();
    times.sort_by(f64::total_cmp);
    let requests = f64::from(u32::try_from(times.len()).expect("some millions"));
    let (case, who) = (case(connections), guard.name());
    let [p50, p99] = [50, 99].map(|percent| rank(&times, percent));
    let rate = requests / elapsed.as_secs_f64();
    let [rate_text, p50_text, p99_text] = [significant(rate), time(p50), time(p99)];
    eprintln!("  {case}, {who}: {rate_text} requests per s, {p50_text} at p50, {p99_text} at p99");
    emit(&case, who, RATE, rate);
    emit(&case, who, P50, p50);
    emit(&case, who, P99, p99);
    for (what, used) in [PROCESSOR, SERVERS].into_iter().zip(used) {
        if let Some(used) = used {
            emit(&case, who, what, used / requests);
        }
    }
}

/// Sends requests over a number of connections, one after the other on each, to an account per
/// connection. Returns the duration of each request in seconds.
async fn run(service: &Service, connections: usize, time: Duration) -> Vec<f64> {
    let mut clients = Vec::new();
    for _ in 0..connections {
        let stream = TcpStream::connect(service.addr).await.expect("it listens");
        stream.set_nodelay(true).expect("it is open");
        let (client, connection) =
            http1::handshake::<_, Empty<Bytes>>(TokioIo::new(stream)).await.expect("it is open");
        tokio::spawn(connection);
        clients.push(client);
    }
    let mut running = JoinSet::new();
    let started = Instant::now();
    for (account, mut client) in clients.into_iter().enumerate() {
        let addr = service.addr;
        running.spawn(async move {
            let mut times = Vec::new();
            while started.elapsed() < time {
                let begun = Instant::now();
                let request = Request::get(format!("/accounts/{account}"));
                let request = request.header("host", addr.to_string()).body(Empty::new());
                let answer = client.send_request(request.expect("it is valid")).await;
                let answer = answer.expect("the service answers");
                assert_eq!(answer.status(), StatusCode::OK, "nobody else wants the account");
                answer.into_body().collect().await.expect("the service answers");
                times.push(begun.elapsed().as_secs_f64());
            }
            times
        });
    }
    running.join_all().await.into_iter().flatten().collect()
}
