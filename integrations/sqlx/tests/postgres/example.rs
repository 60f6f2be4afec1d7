//! The example, as its users run it.

use std::{
    env,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
};

use crate::{cluster::Cluster, support::HANG_GUARD};

/// A running example. Dropping it kills it.
struct Example {
    child: Child,
    address: String,
}

impl Example {
    fn start(database: &str) -> Self {
        let test = env::current_exe().expect("the binary knows its path");
        let target = test.parent().and_then(|deps| deps.parent()).expect("target/PROFILE/deps");
        let program =
            target.join("examples").join(format!("withdrawals{}", env::consts::EXE_SUFFIX));
        let mut child = Command::new(&program)
            .env_remove("REDLOCK_NODES")
            .env("LISTEN", "127.0.0.1:0")
            .env("DATABASE_URL", database)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("{}: {error}; cargo build --workspace --examples", program.display())
            });
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let line = lines.next().expect("it says where it listens").unwrap();
        let address = line.strip_prefix("listening on http://").expect("an address").to_owned();
        Self { child, address }
    }

    /// Returns the status and the body of the response.
    fn post(&self, path: &str) -> (String, String) {
        let mut connection = TcpStream::connect(&self.address).unwrap();
        connection.set_read_timeout(Some(6 * HANG_GUARD)).unwrap();
        let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        connection.write_all(head.as_bytes()).unwrap();
        let mut response = String::new();
        connection.read_to_string(&mut response).unwrap();
        let (head, body) = response.split_once("\r\n\r\n").expect("a head and a body");
        (head.split(' ').nth(1).expect("a status").to_owned(), body.to_owned())
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn withdrawals() {
    let (cluster, pool) = Cluster::start().await;
    let example = Example::start(&cluster.url());

    let (status, body) = example.post("/accounts/1/withdraw/30");
    assert!(status == "200" && body.contains("70 left, under token "), "{status} {body}");
    assert_eq!(example.post("/accounts/1/withdraw/80").0, "422");
    assert_eq!(example.post("/accounts/2/withdraw/80").0, "404");

    // A later holder, on another replica.
    let raise = "UPDATE tower_redlock_fences SET token = token * 2 WHERE resource = 'account:1'";
    assert_eq!(sqlx::query(raise).execute(&pool).await.unwrap().rows_affected(), 1);
    assert_eq!(example.post("/accounts/1/withdraw/30").0, "412");
    assert_eq!(crate::cluster::balance(&pool).await, 70);
}
