//! Tests of the tools that cause failures of networks and clocks.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};

use crate::fixture::{Feature, HANG_GUARD, Proxy, RedisServer, Resp, eventually, has};

/// A connection that speaks the server's inline commands.
struct Client(BufReader<TcpStream>);

impl Client {
    /// Connects through the proxy to the server.
    fn new(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect_timeout(&addr, HANG_GUARD).expect("the proxy listens");
        stream.set_read_timeout(Some(HANG_GUARD)).expect("a timeout");
        let mut client = Self(BufReader::new(stream));
        assert_eq!(client.ask("PING"), "+PONG");
        client
    }

    fn send(&mut self, commands: &str) {
        self.0
            .get_mut()
            .write_all(format!("{commands}\r\n").as_bytes())
            .expect("the command is sent");
    }

    fn read(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("an answer");
        line.trim_end().to_owned()
    }

    fn ask(&mut self, command: &str) -> String {
        self.send(command);
        self.read()
    }

    fn is_cut_off(&mut self) -> bool {
        match self.0.fill_buf() {
            Ok(rest) => rest.is_empty(),
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }
}

fn fixture() -> (RedisServer, Proxy, Client) {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    let client = Client::new(proxy.addr());
    (server, proxy, client)
}

fn all_held(proxy: &Proxy, what: &str) {
    eventually("the request is held", || proxy.holds(what));
}

#[test]
fn set_arrives_after_del_sent_later() {
    let (server, proxy, mut first) = fixture();
    proxy.hold();
    first.send("SET a late");
    all_held(&proxy, "SET a late");
    proxy.drop_clients();
    assert!(first.is_cut_off());
    let mut second = Client::new(proxy.addr());
    assert_eq!(second.ask("DEL a"), ":0");
    assert!(!server.exists("a"));
    proxy.deliver();
    assert_eq!(server.get("a").as_deref(), Some(&b"late"[..]));
    assert!(!proxy.holds("SET a late"));
    assert_eq!(second.ask("DEL a"), ":1", "the other connection is not affected");
}

#[test]
fn delivery_drains_a_long_queue() {
    let (server, proxy, mut client) = fixture();
    proxy.hold();
    for _ in 0..100 {
        client.send(&["INCR a"; 100].join("\r\n"));
    }
    client.send("SET end 1");
    all_held(&proxy, "SET end 1");
    proxy.drop_clients();
    proxy.deliver();
    assert_eq!(server.get("a").as_deref(), Some(&b"10000"[..]));
    assert!(server.exists("end"));
}

#[test]
fn connections_are_delivered_in_order() {
    let (server, proxy, first) = fixture();
    let mut clients = vec![first];
    clients.extend((1..10).map(|_| Client::new(proxy.addr())));
    proxy.hold();
    for (i, client) in clients.iter_mut().enumerate().rev() {
        client.send(&format!("RPUSH list {i}."));
        all_held(&proxy, &format!("RPUSH list {i}."));
    }
    proxy.deliver();
    let items = server.cli(&["LRANGE", "list", "0", "-1"]).items();
    let items: Vec<_> = items.into_iter().map(Resp::text).collect();
    assert_eq!(items, (0..10).map(|i| format!("{i}.")).collect::<Vec<_>>());
    assert!(clients.iter_mut().all(Client::is_cut_off));
}

#[test]
fn held_requests_let_answers_pass() {
    let (server, proxy, mut client) = fixture();
    client.send("BLPOP list 0");
    eventually("the client is blocked", || {
        server.info("clients", "blocked_clients").as_deref() == Some("1")
    });
    proxy.hold();
    server.cli(&["RPUSH", "list", "x"]);
    assert_eq!(client.read(), "*2");
}

#[test]
fn cut_loses_held_bytes() {
    let (server, proxy, mut client) = fixture();
    proxy.hold();
    client.send("SET a late");
    all_held(&proxy, "SET a late");
    proxy.cut();
    proxy.heal();
    proxy.deliver();
    assert!(!server.exists("a"));
    assert!(!proxy.holds("SET a late"));
    assert!(client.is_cut_off());
}

#[test]
fn keys_live_by_the_clock_of_the_server() {
    if !has(&[Feature::Clock]) {
        return;
    }
    let mut server = RedisServer::with_clock(&["--appendonly", "yes"]);
    server.cli(&["SET", "short", "x", "PX", "60000"]);
    server.cli(&["SET", "long", "x", "PX", "600000"]);
    server.set_clock_offset(120.0);
    assert!(!server.exists("short"));
    assert!(server.pttl("long") <= 480_000);

    server.restart_keeping_data();

    assert!(server.pttl("long") <= 480_000, "a restarted server has the same clock");
    server.set_clock_offset(-120.0);
    assert!(server.pttl("long") > 600_000, "the key has a longer TTL than it was given");
}
