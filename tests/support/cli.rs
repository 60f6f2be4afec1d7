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

    #[track_caller]
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.cli(&["GET", key]).bytes()
    }

    #[track_caller]
    pub fn set(&self, key: &str, value: &str) {
        assert_eq!(self.cli(&["SET", key, value]), Resp::Simple("OK".into()));
    }

    #[track_caller]
    pub fn exists(&self, key: &str) -> bool {
        self.cli(&["EXISTS", key]).int() == 1
    }

    /// Sorted.
    #[track_caller]
    pub fn keys(&self, pattern: &str) -> Vec<String> {
        let mut keys: Vec<_> =
            self.cli(&["KEYS", pattern]).items().into_iter().map(Resp::text).collect();
        keys.sort();
        keys
    }

    /// Milliseconds to live; -1 without an expiry, -2 without the key.
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
