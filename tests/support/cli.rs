//! Commands to a real server, for setting a scene and for assertions.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::resp::{Resp, decode, encode};
use super::server::RedisServer;
use super::wait::HANG_GUARD;

impl RedisServer {
    /// Sends one command over a connection of its own, with the server's password where it has one.
    /// An error reply is returned as [`Resp::Error`]; a server that is down, or silent for
    /// [`HANG_GUARD`], panics.
    #[track_caller]
    pub fn cli(&self, args: &[impl AsRef<[u8]>]) -> Resp {
        roundtrip(self.addr(), self.password(), args).unwrap_or_else(|error| {
            let command: Vec<_> =
                args.iter().map(|arg| String::from_utf8_lossy(arg.as_ref())).collect();
            panic!("{} did not answer {command:?}: {error}", self.addr())
        })
    }

    /// Sends one command that is answered by OK.
    #[track_caller]
    pub(super) fn order(&self, args: &[&str]) {
        match self.cli(args) {
            Resp::Simple(said) if said.starts_with("OK") => {}
            other => panic!("{} answers {args:?} by {other:?}", self.addr()),
        }
    }

    /// Sets a configuration parameter until the server is restarted.
    #[track_caller]
    pub fn set_config(&self, name: &str, value: &str) {
        self.order(&["CONFIG", "SET", name, value]);
    }

    #[track_caller]
    pub fn config(&self, name: &str) -> String {
        let mut items = self.cli(&["CONFIG", "GET", name]).items();
        items.pop().unwrap_or_else(|| panic!("no setting {name}")).text()
    }

    /// A field of a section of INFO.
    #[track_caller]
    pub fn info(&self, section: &str, field: &str) -> Option<String> {
        let text = self.cli(&["INFO", section]).text();
        let value = |line: &str| line.strip_prefix(field)?.strip_prefix(':').map(ToOwned::to_owned);
        text.lines().find_map(value)
    }

    /// How often the server has run a command, by clients and scripts.
    #[track_caller]
    pub fn calls(&self, command: &str) -> u64 {
        let stats = self.info("commandstats", &format!("cmdstat_{command}")).unwrap_or_default();
        let calls = stats.split(',').find_map(|part| part.strip_prefix("calls="));
        calls.map_or(0, |calls| calls.parse().expect("a number"))
    }

    #[track_caller]
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.cli(&["GET", key]).bytes()
    }

    #[track_caller]
    pub fn set(&self, key: &str, value: &str) {
        self.order(&["SET", key, value]);
    }

    #[track_caller]
    pub fn exists(&self, key: &str) -> bool {
        self.cli(&["EXISTS", key]).int() == 1
    }

    /// Returns the keys that match a pattern, sorted.
    #[track_caller]
    pub fn keys(&self, pattern: &str) -> Vec<String> {
        let mut keys: Vec<_> =
            self.cli(&["KEYS", pattern]).items().into_iter().map(Resp::text).collect();
        keys.sort();
        keys
    }

    /// Returns the remaining milliseconds; -1 without an expiry, -2 without the key.
    #[track_caller]
    pub fn pttl(&self, key: &str) -> i64 {
        self.cli(&["PTTL", key]).int()
    }
}

pub fn roundtrip(
    server: SocketAddr,
    password: Option<&str>,
    args: &[impl AsRef<[u8]>],
) -> io::Result<Resp> {
    let mut stream = TcpStream::connect_timeout(&server, HANG_GUARD)?;
    stream.set_read_timeout(Some(HANG_GUARD))?;
    stream.set_write_timeout(Some(HANG_GUARD))?;
    let mut received = Vec::new();
    if let Some(password) = password {
        stream.write_all(&encode(&["AUTH", password]))?;
        read(&mut stream, &mut received)?;
    }
    stream.write_all(&encode(args))?;
    read(&mut stream, &mut received)
}

fn read(stream: &mut TcpStream, received: &mut Vec<u8>) -> io::Result<Resp> {
    let mut buffer = [0; 4096];
    loop {
        if let Some((reply, length)) = decode(received) {
            received.drain(..length);
            return Ok(reply);
        }
        match stream.read(&mut buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => received.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
