//! A client that sends requests as they are written here.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
};

use serde_json::Value;

use crate::program::HANG_GUARD;

/// The status and the whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl Answer {
    /// Returns the body.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let body = self.text.split_once("\r\n\r\n").map(|(_, body)| body);
        body.and_then(|body| serde_json::from_str(body).ok()).unwrap_or_else(|| panic!("{self:?}"))
    }
}

/// Sends a GET with these lines of headers, which include `Host`.
#[track_caller]
pub(crate) fn get(address: SocketAddr, path: &str, headers: &[&str]) -> Answer {
    send(address, "GET", path, headers, "")
}

/// Sends a form.
#[track_caller]
pub(crate) fn post(address: SocketAddr, path: &str, headers: &[&str], form: &str) -> Answer {
    send(address, "POST", path, headers, form)
}

/// The header of a browser that was given the server's address.
pub(crate) fn host(address: SocketAddr) -> String {
    format!("Host: {address}")
}

#[track_caller]
fn send(address: SocketAddr, method: &str, path: &str, headers: &[&str], body: &str) -> Answer {
    let mut connection = open(address, method, path, headers, body);
    let mut text = String::new();
    connection.read_to_string(&mut text).expect("the answer arrives");
    let status = text.strip_prefix("HTTP/1.1 ").and_then(|text| text.get(..3)?.parse().ok());
    Answer { status: status.unwrap_or_else(|| panic!("no status: {text}")), text }
}

fn open(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[&str],
    body: &str,
) -> BufReader<TcpStream> {
    let mut connection = TcpStream::connect(address).expect("it listens");
    connection.set_read_timeout(Some(HANG_GUARD)).expect("not zero");
    let length = format!("Content-Length: {}", body.len());
    let first = format!("{method} {path} HTTP/1.1");
    let lines = [&[&*first], headers, &["Connection: close", &length, "", body]].concat();
    connection.write_all(lines.join("\r\n").as_bytes()).expect("it reads");
    BufReader::new(connection)
}

/// Follows the stream of events. Returns the connection once the first part has come.
#[track_caller]
pub(crate) fn follow_events(address: SocketAddr) -> BufReader<TcpStream> {
    let mut events = open(address, "GET", "/api/events/stream", &[&host(address)], "");
    let mut line = String::new();
    while !line.contains("retry: ") {
        line.clear();
        assert!(events.read_line(&mut line).expect("a line") > 0, "the stream has ended");
    }
    events
}
