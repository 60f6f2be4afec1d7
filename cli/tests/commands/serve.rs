//! `serve`: who may see and do what, and its end.

use std::{
    fs,
    io::{BufRead, BufReader, ErrorKind, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{ChildStderr, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::Value;

use crate::{
    fixture::{Running, enrolled, nodes, redlock, store, store_record},
    http::{Answer, follow_events, get, host, post},
    program::{HANG_GUARD, run, run_with},
    support::{TempDir, eventually},
};

const PASSWORD: &str = "REDLOCK_SERVE_PASSWORD";
/// `ann` with the password `s3cret`, and with another one.
const RIGHT: &str = "Authorization: Basic YW5uOnMzY3JldA==";
const WRONG: &str = "Authorization: Basic YW5uOm90aGVy";
/// A server that is down: for what needs none.
const NOWHERE: &str = "redis://127.0.0.1:1";

struct Served {
    program: Running,
    errors: BufReader<ChildStderr>,
    address: SocketAddr,
}

impl Served {
    fn start(nodes: &str, args: &[&str], password: Option<&str>) -> Self {
        let args = [&["--nodes", nodes, "serve", "--listen=127.0.0.1:0"], args].concat();
        let mut command = Running::command(&[], &args);
        command.envs(password.map(|password| (PASSWORD, password)));
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> Self {
        let mut program = Running::spawn(command.stderr(Stdio::piped()));
        let errors = BufReader::new(program.errors().expect("it is piped"));
        let line = program.line();
        let url = line.strip_prefix("http://").and_then(|url| url.strip_suffix("/\n"));
        let address = url.unwrap_or_else(|| panic!("no URL: {line}")).parse().unwrap();
        Self { program, errors, address }
    }

    #[track_caller]
    fn get(&self, path: &str, headers: &[&str]) -> Answer {
        get(self.address, path, &[&[&*host(self.address)], headers].concat())
    }

    #[track_caller]
    fn post(&self, path: &str, headers: &[&str], form: &str) -> Answer {
        post(self.address, path, &[&[&*host(self.address)], headers].concat(), form)
    }

    /// Ends it. Returns what it has logged.
    fn end(mut self, signal: Signal) -> String {
        assert_eq!(self.program.end(signal), Some(0));
        let mut log = String::new();
        self.errors.read_to_string(&mut log).unwrap();
        log
    }
}

#[test]
fn held_locks_are_served() {
    let servers = enrolled(3);
    store(&servers, "invoice:42", "night-shift", 17);
    let served = Served::start(&nodes(&servers), &[], None);
    eventually("all servers have been read", || served.get("/locks", &[]).text.contains("3/3"));
    let page = served.get("/locks", &[]);
    for word in ["text/html", "invoice:42", "night-shift"] {
        assert!(page.text.contains(word), "{word}: {page:?}");
    }
    let json = served.get("/api/locks", &[]);
    assert!(json.status == 200 && json.text.contains("\"invoice:42\""), "{json:?}");
    served.end(Signal::INT);
}

#[test]
fn strangers_may_only_read() {
    let served = Served::start(NOWHERE, &[], None);
    assert_eq!(served.get("/nodes", &[]).status, 200);
    assert_eq!(served.post("/pause", &[], "name=report").status, 403);
}

#[test]
fn rebound_names_are_refused() {
    for (args, password) in [(&[][..], None), (&["--user=ann"], Some("s3cret"))] {
        let served = Served::start(NOWHERE, args, password);
        let port = served.address.port();
        let status = |host: &str| {
            get(served.address, "/api/nodes", &[&format!("Host: {host}"), RIGHT]).status
        };
        assert_eq!(status(&format!("localhost:{port}")), 200);
        assert_eq!(status(&format!("evil.example:{port}")), 403);
        let refused = get(served.address, "/api/nodes", &["Host: evil.example", RIGHT]);
        assert!(refused.text.contains("by an IP address or as localhost"), "{refused:?}");
        assert!(!refused.text.contains("127.0.0.1:1/0"), "{refused:?}");
    }
}

#[test]
fn names_of_the_proxy_are_accepted() {
    let args = ["--user=ann", "--host=locks.example", "--host=locks.internal"];
    let served = Served::start(NOWHERE, &args, Some("s3cret"));
    let status = |host: &str, more: &[&str]| {
        get(served.address, "/nodes", &[&[&*format!("Host: {host}")], more].concat()).status
    };
    for host in ["locks.example", "locks.internal:8443"] {
        assert_eq!(status(host, &[RIGHT]), 200);
        assert_eq!(status(host, &[]), 401);
    }
    assert_eq!(status("evil.example", &[RIGHT]), 403);
}

#[test]
fn pages_restore_no_record() {
    let mut servers = enrolled(3);
    let record = "redlock:done:once:order:7";
    store_record(&servers[1..2], "order:7", 'd', "night-shift");
    store(&servers, "invoice:42", "night-shift", 17);
    let served = Served::start(&nodes(&servers), &[], None);
    eventually("all servers have been read", || served.get("/locks", &[]).text.contains("3/3"));
    // An answer then needs both of the others.
    servers[2].kill();

    // A second look is sent on the same connections after all that the first one had sent.
    eventually("a second look", || {
        let json = served.get("/api/once?key=order:7", &[]).json();
        let fleet = &json["fleet"];
        fleet["state"] == "done" && fleet["look"]["number"].as_u64() >= Some(2)
    });

    assert!(!servers[0].exists(record), "a GET writes nothing");
    eventually("`once status` restores the record", || {
        redlock(&servers, &["once", "status", "order:7"]).is(0, &["is done"]);
        servers[0].exists(record)
    });
}

#[test]
fn user_acts_with_the_password() {
    let servers = enrolled(1);
    let served = Served::start(&nodes(&servers), &["--user=ann"], Some("s3cret"));
    for headers in [&[][..], &[WRONG]] {
        let refused = served.get("/api/locks", headers);
        assert_eq!(refused.status, 401);
        assert!(refused.text.contains("Basic realm=\"redlock\""), "{refused:?}");
        assert_eq!(served.post("/pause", headers, "name=report").status, 401);
    }
    assert_eq!(served.get("/api/locks", &[RIGHT]).status, 200);
    eventually("a quorum", || served.post("/pause", &[RIGHT], "name=report").status == 303);
    redlock(&servers, &["jobs", "history", "report"]).is(0, &["paused by ann"]);
    let log = served.end(Signal::TERM);
    let is_action = |line: &str| line.contains("INFO") && line.contains("by=ann");
    assert!(log.lines().any(is_action), "{log}");
    assert!(!log.contains("s3cret"));
}

#[test]
fn reader_may_not_act() {
    let dir = TempDir::new();
    let file = dir.path().join("password");
    fs::write(&file, "s3cret\r\nsecond line\n").unwrap();
    let file = format!("--password-file={}", file.display());
    // The option is stronger than the variable.
    let args = ["--user=ann", &file, "--read-only"];
    let served = Served::start(NOWHERE, &args, Some("other"));
    assert_eq!(served.get("/nodes", &[WRONG]).status, 401);
    assert_eq!(served.get("/nodes", &[RIGHT]).status, 200);
    assert_eq!(served.post("/pause", &[RIGHT], "name=report").status, 403);
}

#[test]
fn signal_ends_open_streams() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let served = Served::start(NOWHERE, &[], None);
        let mut events = follow_events(served.address);
        let begun = Instant::now();
        served.end(signal);
        // A stream takes 20 s by itself.
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        let mut rest = Vec::new();
        let _ = events.read_to_end(&mut rest);
    }
}

#[test]
fn connections_beyond_the_limit_wait() {
    let served = Served::start(NOWHERE, &["--max-connections=1"], None);
    let events = follow_events(served.address);
    let mut other = TcpStream::connect(served.address).unwrap();
    let request = format!("GET /nodes HTTP/1.1\r\n{}\r\n\r\n", host(served.address));
    other.write_all(request.as_bytes()).unwrap();
    other.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut first = [0; 12];
    let waits = other.read(&mut first).expect_err("it waits").kind();
    assert_eq!(waits, ErrorKind::WouldBlock);
    drop(events);
    other.set_read_timeout(Some(HANG_GUARD)).unwrap();
    other.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
}

/// Opens a connection, sends these bytes, and waits for the first bytes of an answer.
fn answered(served: &Served, sent: &str) -> TcpStream {
    let mut connection = TcpStream::connect(served.address).unwrap();
    connection.set_read_timeout(Some(HANG_GUARD)).unwrap();
    connection.write_all(sent.as_bytes()).unwrap();
    connection.read_exact(&mut [0; 9]).expect("an answer");
    connection
}

/// Whether the server has closed the connection.
fn is_closed(connection: &mut TcpStream) -> bool {
    connection.set_nonblocking(true).unwrap();
    let read = connection.read_to_end(&mut Vec::new());
    !read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

#[test]
fn idle_strangers_make_room_for_the_user() {
    let request = "GET /nodes HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    // The preface of HTTP/2, and empty settings.
    let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\u{4}\0\0\0\0\0";
    let args = ["--user=ann", "--max-connections=2"];
    let served = Served::start(NOWHERE, &args, Some("s3cret"));
    for sent in [request, preface] {
        let mut strangers = [answered(&served, sent), answered(&served, sent)];

        assert_eq!(served.get("/nodes", &[RIGHT]).status, 200);

        assert!(is_closed(&mut strangers[0]), "the oldest ends");
        assert!(!is_closed(&mut strangers[1]), "no other one ends");
    }
}

#[test]
fn strangers_keep_no_place_by_requests() {
    let args = ["--user=ann", "--max-connections=1"];
    let served = Served::start(NOWHERE, &args, Some("s3cret"));
    let request = "GET /nodes HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    let mut stranger = answered(&served, request);
    stranger.set_nonblocking(false).unwrap();
    let busy = thread::spawn(move || {
        while stranger.write_all(request.as_bytes()).is_ok()
            && stranger.read(&mut [0; 4096]).is_ok_and(|read| read > 0)
        {}
    });

    assert_eq!(served.get("/nodes", &[RIGHT]).status, 200);
    busy.join().unwrap();
}

#[test]
fn long_heads_are_refused() {
    let served = Served::start(NOWHERE, &[], None);
    let mut connection = TcpStream::connect(served.address).unwrap();
    connection.set_read_timeout(Some(HANG_GUARD)).unwrap();

    let begun = format!("GET /nodes HTTP/1.1\r\n{}\r\nA: ", host(served.address));
    connection.write_all(begun.as_bytes()).unwrap();
    // The server may close before it has read all.
    let _ = connection.write_all("a".repeat(80 << 10).as_bytes());

    let mut first = [0; 12];
    connection.read_exact(&mut first).expect("an answer before the end of the head");
    assert_eq!(&first, b"HTTP/1.1 431");
}

#[test]
fn ignored_hangup_stays_ignored() {
    let mut command = Command::new("nohup");
    command.args([env!("CARGO_BIN_EXE_redlock"), "--nodes", NOWHERE, "serve"]);
    command.arg("--listen=127.0.0.1:0").stdin(Stdio::null()).stdout(Stdio::piped());
    let served = Served::spawn(command);
    served.program.send(Signal::HUP);
    assert_eq!(served.get("/nodes", &[]).status, 200);
    served.end(Signal::TERM);
}

#[test]
fn address_in_use_is_said() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    run(NOWHERE, &["serve", "--listen", &address])
        .is(71, &["redlock: cannot listen on", &address, "in use", "--listen"]);
}

#[test]
fn json_has_the_url() {
    let args = ["--nodes", NOWHERE, "serve", "--listen=[::1]:0", "--json"];
    let mut program = Running::start(&[], &args);
    let json: Value = serde_json::from_str(&program.line()).unwrap();
    let url = json["url"].as_str().unwrap();
    assert!(url.starts_with("http://[::1]:"), "{url}");
    let address = url.strip_prefix("http://").and_then(|url| url.strip_suffix('/'));
    let address = address.unwrap().parse().unwrap();
    assert_eq!(get(address, "/nodes", &[&host(address)]).status, 200);
    assert_eq!(program.end(Signal::TERM), Some(0));
}

#[test]
fn unsafe_usage_is_refused() {
    let dir = TempDir::new();
    let empty = dir.path().join("empty");
    fs::write(&empty, "\ns3cret\n").unwrap();
    let empty = format!("--password-file={}", empty.display());
    let usage: [(&[&str], &str, &str); 11] = [
        (&["--listen=0.0.0.0:0"], "", "--user"),
        (&["--listen=[::]:0"], "s3cret", "--user"),
        (&["--listen=localhost"], "", "an address such as 127.0.0.1:8700"),
        (&["--user=ann"], "", PASSWORD),
        (&["--user=ann", &empty], "s3cret", "the first line is empty"),
        (&["--user=ann:b"], "s3cret", "no colon"),
        (&["--user="], "s3cret", "not empty"),
        (&[&empty], "s3cret", "--user <NAME>"),
        (&["--max-connections=0"], "", "0 is not in 1..=65535"),
        (&["--host=locks.example:80"], "", "a name without a port"),
        (&["--password=s3cret"], "", "unexpected argument '--password'"),
    ];
    for (args, password, words) in usage {
        let args = [&["serve"], args].concat();
        let outcome = run_with(NOWHERE, &args, &[(PASSWORD, password)]);
        outcome.is(64, &[words]).never_says("s3cret").never_says("http://");
    }
    let missing = ["serve", "--user=ann", "--password-file=/nonexistent"];
    run(NOWHERE, &missing).is(78, &["/nonexistent: "]);
    run("", &["serve"]).is(78, &["no servers"]);
}

#[test]
fn password_in_the_clear_warns() {
    // An address for documentation, which no host has (RFC 5737).
    let args = ["serve", "--listen=192.0.2.1:0", "--user=ann"];
    let outcome = run_with(NOWHERE, &args, &[(PASSWORD, "s3cret")]);
    outcome.is(71, &["the password travels in the clear", "cannot listen"]).never_says("s3cret");
}

#[test]
fn useless_password_is_said() {
    let mut served = Served::start(NOWHERE, &[], Some("s3cret"));
    let mut line = String::new();
    served.errors.read_line(&mut line).unwrap();
    assert!(line.contains("is not used without --user"), "{line}");
}
