//! The dashboard and the alerts in `contrib` over a scrape, by a Prometheus of the test's own.

use std::{
    collections::BTreeSet,
    fs,
    net::SocketAddr,
    path::Path,
    time::{Duration, Instant},
};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tower_redlock::{Job, Redlock, Schedule, Scheduler};

use crate::{
    everything_recorded,
    recorder::Numbers,
    support::{HANG_GUARD, Port, Process, TempDir, eventually_async, unused_port},
};

const CONTRIB: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/contrib");

/// Two scrapes in this time are enough for a rate.
const RANGE: &str = "20s";

/// Reads a file of `contrib`.
fn contrib(path: &str) -> String {
    fs::read_to_string(Path::new(CONTRIB).join(path)).unwrap()
}

/// A Prometheus that scrapes an exporter each second.
struct Prometheus {
    port: Port,
    _process: Process,
    dir: TempDir,
}

impl Prometheus {
    fn start(exporter: SocketAddr) -> Self {
        let (port, dir) = (unused_port(), TempDir::new());
        let rules = format!("{CONTRIB}/prometheus/alerts.yml");
        let config = format!(
            "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\n\
             rule_files: [{rules:?}]\n\
             scrape_configs:\n  - job_name: bank\n    static_configs: [{{ targets: [\"{exporter}\"] }}]\n"
        );
        let file = dir.path().join("prometheus.yml");
        fs::write(&file, config).unwrap();
        let arguments = [
            "prometheus".to_owned(),
            format!("--config.file={}", file.display()),
            format!("--storage.tsdb.path={}", dir.path().join("data").display()),
            format!("--web.listen-address={}", port.addr()),
        ];
        let process = Process::spawn(&arguments, &dir.path().join("log"));
        Self { port, _process: process, dir }
    }

    /// Returns `data` of an answer of the API; `None` if there is none.
    async fn get(&self, path: &str) -> Option<Value> {
        let mut stream = tokio::net::TcpStream::connect(self.port.addr()).await.ok()?;
        let request = format!("GET /api/v1/{path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.ok()?;
        let answer = String::from_utf8(answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n")?;
        let body: Value = serde_json::from_str(body).ok()?;
        assert_eq!(body["status"], "success", "{path}: {body}");
        Some(body["data"].clone())
    }

    /// Returns the number of series that a query finds.
    async fn count(&self, query: &str) -> usize {
        let encoded: Vec<_> = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let data = self.get(&format!("query?query={}", encoded.concat())).await;
        data.map_or(0, |data| data["result"].as_array().expect("a list").len())
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }
}

async fn serve(numbers: Numbers) -> SocketAddr {
    let text = move || async move { numbers.exposition() };
    let app = axum::Router::new().route("/metrics", axum::routing::get(text));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

/// The queries of the dashboard's panels, by title.
fn queries() -> Vec<(String, String)> {
    let board: Value = serde_json::from_str(&contrib("grafana/redlock.json")).unwrap();
    let panels = board["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| {
        let targets = panel["targets"].as_array().into_iter().flatten();
        targets.map(|target| (panel["title"].as_str().unwrap().to_owned(), target["expr"].clone()))
    });
    let filled = |query: Value| {
        let query = query.as_str().unwrap().replace("$__rate_interval", RANGE);
        query.replace("$job", ".*").replace("$instance", ".*")
    };
    targets.map(|(title, query)| (title, filled(query))).collect()
}

/// The metrics in the table that the crate's documentation includes.
fn documented() -> BTreeSet<String> {
    let text = fs::read_to_string(Path::new(CONTRIB).with_file_name("src/metrics.md")).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `redlock_"));
    rows.map(|row| format!("redlock_{}", row.split('`').next().unwrap())).collect()
}

#[tokio::test]
#[ignore = "starts prometheus, and needs a process of its own for its recorder: scripts/check-contrib runs it"]
async fn every_panel_and_alert_finds_its_metrics() {
    let numbers = everything_recorded().await;
    // A job and a leader that go on.
    let redlock = Redlock::embedded();
    let hourly = Schedule::every(Duration::from_secs(3600));
    let job = Job::new("report", hourly, |_| async {});
    let readers = [redlock.lock("a").shared().await, redlock.lock("a").shared().await];
    assert!(readers.iter().all(Result::is_ok), "the second one joins");
    let _jobs = Scheduler::new(redlock.clone()).job(job).start().unwrap();

    let prometheus = Prometheus::start(serve(numbers).await);
    let started = Instant::now();
    while prometheus.count("up == 1").await == 0 {
        assert!(started.elapsed() < 6 * HANG_GUARD, "no scrape:\n{}", prometheus.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    let scraped = prometheus.get("label/__name__/values").await.expect("the names");
    let scraped: BTreeSet<_> =
        scraped.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let is_scraped =
        |name: &str| scraped.contains(name) || scraped.contains(format!("{name}_count").as_str());
    let missing: Vec<_> = documented().into_iter().filter(|name| !is_scraped(name)).collect();
    assert!(missing.is_empty(), "{missing:?} of {scraped:?}");

    let queries = queries();
    assert!(queries.len() > 30, "{} queries", queries.len());
    for (title, query) in queries {
        let found = async || prometheus.count(&query).await > 0;
        eventually_async(&format!("{title} has data: {query}"), found).await;
    }
    // As many series as there are servers and outcomes, not one in place of all.
    assert!(prometheus.count("avg by (node) (redlock_node_voting)").await >= 3);

    eventually_async("all alerts are evaluated", async || {
        let Some(rules) = prometheus.get("rules").await else { return false };
        let groups = rules["groups"].as_array().unwrap();
        let rules: Vec<_> = groups.iter().flat_map(|g| g["rules"].as_array().unwrap()).collect();
        assert!(rules.len() > 12, "{} rules", rules.len());
        let health = |rule: &&Value| rule["health"].as_str().unwrap().to_owned();
        for rule in &rules {
            assert_ne!(health(rule), "err", "{rule}");
        }
        rules.iter().all(|rule| health(rule) == "ok")
    })
    .await;
}
