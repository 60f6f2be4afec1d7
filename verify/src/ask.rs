//! Sends one command to a server, over a separate connection.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::support::resp::{Resp, decode, encode};

/// Returns the reply, which may be an error. `timeout` is the timeout of each step.
pub fn ask(server: SocketAddr, timeout: Duration, args: &[&str]) -> io::Result<Resp> {
    let mut stream = TcpStream::connect_timeout(&server, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    stream.write_all(&encode(args))?;
    let mut received = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        if let Some((reply, _)) = decode(&received) {
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

/// Like [`ask`], but an error reply is an error.
pub fn command(server: SocketAddr, timeout: Duration, args: &[&str]) -> io::Result<Resp> {
    match ask(server, timeout, args)? {
        Resp::Error(message) => Err(io::Error::other(format!("{}: {message}", args.join(" ")))),
        reply => Ok(reply),
    }
}
