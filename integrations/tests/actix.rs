//! The example `actix`, as its users run it.

use std::{
    env,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

/// Its own tests.
#[path = "../examples/actix.rs"]
#[allow(dead_code, reason = "the program is started, and not called")]
mod example;

/// Time after which a request counts as hanging.
const HANG_GUARD: Duration = Duration::from_secs(20);

/// A running example. Dropping it kills it.
struct Example {
    child: Child,
    address: String,
}

impl Example {
    fn start() -> Self {
        let test = env::current_exe().expect("the binary knows its path");
        let target = test.parent().and_then(|deps| deps.parent()).expect("target/PROFILE/deps");
        let program = target.join("examples").join(format!("actix{}", env::consts::EXE_SUFFIX));
        let mut command = Command::new(&program);
        command.env_remove("REDLOCK_NODES").env("LISTEN", "127.0.0.1:0").stdout(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| {
            panic!("{}: {error}; cargo build --workspace --examples", program.display())
        });
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let line = lines.next().expect("it says where it listens").unwrap();
        // Its output is read to the end, so that it is never blocked by it.
        thread::spawn(move || lines.for_each(drop));
        let address = line.strip_prefix("listening on http://").expect("an address").to_owned();
        Self { child, address }
    }

    /// Returns the status and the body of the response.
    fn post(&self, path: &str) -> (u16, String) {
        let mut connection = TcpStream::connect(&self.address).unwrap();
        connection.set_read_timeout(Some(HANG_GUARD)).unwrap();
        let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        connection.write_all(head.as_bytes()).unwrap();
        let mut response = String::new();
        connection.read_to_string(&mut response).unwrap();
        let (head, body) = response.split_once("\r\n\r\n").expect("a head and a body");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.expect("a status"), body.trim().to_owned())
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn requests_for_an_account_run_one_at_a_time() {
    const REQUESTS: usize = 16;
    let example = Example::start();

    let mut balances: Vec<usize> = thread::scope(|scope| {
        let requests: Vec<_> =
            (0..REQUESTS).map(|_| scope.spawn(|| example.post("/accounts/1/deposit/10"))).collect();
        let responses = requests.into_iter().map(|request| request.join().unwrap());
        responses
            .map(|(status, body)| {
                assert_eq!(status, 200, "{body}");
                body.parse().unwrap()
            })
            .collect()
    });

    balances.sort_unstable();
    let expected: Vec<_> = (1..=REQUESTS).map(|count| count * 10).collect();
    assert_eq!(balances, expected, "no deposit is lost");
    assert_eq!(example.post("/accounts/2/deposit/7"), (200, "7".into()));
}
