//! The service as its users run it: over real servers, of which a majority hangs for a while.

use std::{
    env,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{HANG_GUARD, RedisServer, eventually, urls};

/// A running service. Dropping it kills it.
struct Service {
    child: Child,
    address: String,
    /// Its output, which has to be read while it runs.
    _output: BufReader<ChildStdout>,
}

impl Service {
    fn start(servers: &[RedisServer]) -> Self {
        let program = Path::new(env!("CARGO_BIN_EXE_demo")).with_file_name("examples");
        let program = program.join(format!("service{}", env::consts::EXE_SUFFIX));
        let mut child = Command::new(program)
            .env("REDLOCK_NODES", urls(servers).join(","))
            .env("LISTEN", "127.0.0.1:0")
            .stdout(Stdio::piped())
            .spawn()
            .expect("the service starts: cargo build --workspace --examples");
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        let address = loop {
            line.clear();
            assert_ne!(output.read_line(&mut line).unwrap(), 0, "it says where it listens");
            if let Some(address) = line.trim().strip_prefix("listening on http://") {
                break address.to_owned();
            }
        };
        Self { child, address, _output: output }
    }

    /// Returns the head and the body of the response.
    fn send(&self, request: &str) -> (String, String) {
        let mut connection = TcpStream::connect(&self.address).unwrap();
        connection.set_read_timeout(Some(6 * HANG_GUARD)).unwrap();
        let (line, headers) = request.split_once('\n').unwrap_or((request, ""));
        let head = format!("{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
        connection.write_all(format!("{head}{headers}\r\n").as_bytes()).unwrap();
        let mut response = String::new();
        connection.read_to_string(&mut response).unwrap();
        let (head, body) = response.split_once("\r\n\r\n").expect("a head and a body");
        (head.to_owned(), body.to_owned())
    }

    fn is_ready(&self) -> bool {
        self.send("GET /ready").0.starts_with("HTTP/1.1 200")
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn service_answers_reports_and_ends() {
    let servers = RedisServer::start_n(3);
    let mut service = Service::start(&servers);
    assert!(service.is_ready());

    let (head, body) = service.send("POST /accounts/7/withdraw");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(body.contains("account 7 under token "), "{body}");
    let hook = "POST /hooks/shop\nwebhook-id: 1\r\n";
    assert!(service.send(hook).1.contains("handled"));
    assert!(service.send(hook).0.contains("once: duplicate"), "it is handled once");
    let metrics = service.send("GET /metrics").1;
    for metric in ["redlock_acquire_seconds_bucket{", "redlock_once_total{", "redlock_node_voting{"]
    {
        assert!(metrics.contains(metric), "{metric} in {metrics}");
    }

    servers[1..].iter().for_each(RedisServer::freeze);
    eventually("the service is not ready without a majority", || !service.is_ready());
    let (head, body) = service.send("POST /accounts/7/withdraw");
    assert!(head.starts_with("HTTP/1.1 503") && body.contains("no-quorum"), "{head} {body}");
    servers[1..].iter().for_each(RedisServer::thaw);
    eventually("the service is ready again", || service.is_ready());

    let id = Pid::from_raw(service.child.id().try_into().unwrap()).expect("it runs");
    kill_process(id, Signal::TERM).unwrap();
    assert!(service.child.wait().unwrap().success(), "it ends in order");
    let locks: Vec<_> = servers.iter().flat_map(|server| server.keys("redlock:lock:*")).collect();
    assert_eq!(locks, [""; 0], "it leaves no lock");
}
