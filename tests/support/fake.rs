//! A server with scripted answers.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::background::Background;
use super::port;
use super::resp::{Resp, decode};

/// A command's name and arguments.
pub type Command = Vec<Vec<u8>>;

/// The reaction of a [`FakeServer`] to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// Sends these bytes, which should be RESP.
    Reply(Vec<u8>),
    /// Sends nothing, and reads the next command.
    Silence,
    /// Closes the connection.
    Close,
    /// Sends these bytes, and then others until the connection ends.
    Endless(Vec<u8>),
    /// Sends the first bytes, and then the second ones again and again until the connection ends.
    Repeated(Vec<u8>, Vec<u8>),
    /// Sends these bytes, and then others until the connection ends, one in each tenth of a second.
    Drip(Vec<u8>),
    /// Sends these bytes and closes the connection: a reply that breaks off.
    Truncated(Vec<u8>),
}

impl Reaction {
    /// `+OK`.
    pub fn ok() -> Self {
        Self::simple("OK")
    }

    pub fn simple(text: &str) -> Self {
        Self::Reply(format!("+{text}\r\n").into())
    }

    /// An error with its code first, such as `LOADING the dataset is in memory soon`.
    pub fn error(message: &str) -> Self {
        Self::Reply(format!("-{message}\r\n").into())
    }

    pub fn int(value: i64) -> Self {
        Self::Reply(format!(":{value}\r\n").into())
    }

    pub fn bulk(text: &str) -> Self {
        Self::Reply(format!("${}\r\n{text}\r\n", text.len()).into())
    }

    /// The null reply.
    pub fn null() -> Self {
        Self::Reply(b"$-1\r\n".to_vec())
    }

    /// An array of such replies.
    pub fn array(items: &[Self]) -> Self {
        let mut out = format!("*{}\r\n", items.len()).into_bytes();
        for item in items {
            match item {
                Self::Reply(bytes) => out.extend_from_slice(bytes),
                other => panic!("{other:?} can't be part of an array"),
            }
        }
        Self::Reply(out)
    }
}

/// A scripted server on 127.0.0.1, on a thread of its own.
#[derive(Debug)]
pub struct FakeServer {
    seen: Arc<Seen>,
    background: Background,
}

#[derive(Debug, Default)]
struct Seen {
    commands: Mutex<Vec<Command>>,
    connections: AtomicUsize,
    open: AtomicUsize,
}

impl FakeServer {
    /// Starts a server that calls `script` for every command of every connection, in the order of
    /// their arrival. A script that panics closes its connection.
    pub fn start(script: impl Fn(&[Vec<u8>]) -> Reaction + Send + Sync + 'static) -> Self {
        let seen = Arc::<Seen>::default();
        let script: Arc<Script> = Arc::new(script);
        let background = Background::run({
            let seen = seen.clone();
            move |listener| serve(listener, script, seen)
        });
        Self { seen, background }
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.addr())
    }

    pub fn addr(&self) -> SocketAddr {
        self.background.addr()
    }

    /// Every command so far, also those that got no reply.
    pub fn commands(&self) -> Vec<Command> {
        self.seen.commands.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the number of commands with this name so far, ignoring case.
    pub fn count(&self, name: &str) -> usize {
        self.commands().iter().filter(|command| is(command, name)).count()
    }

    /// Returns the number of connections that neither the client nor the script has closed. A
    /// connection that is closed without data counts until the server next reads or writes.
    pub fn open_connections(&self) -> usize {
        self.seen.open.load(Ordering::SeqCst)
    }

    /// Connections accepted since the start.
    pub fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }
}

/// Counts a connection until it ends.
struct Open(Arc<Seen>);

impl Open {
    fn new(seen: Arc<Seen>) -> Self {
        seen.open.fetch_add(1, Ordering::SeqCst);
        Self(seen)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

type Script = dyn Fn(&[Vec<u8>]) -> Reaction + Send + Sync;

fn is(command: &[Vec<u8>], name: &str) -> bool {
    command.first().is_some_and(|first| first.eq_ignore_ascii_case(name.as_bytes()))
}

async fn serve(listener: TcpListener, script: Arc<Script>, seen: Arc<Seen>) {
    loop {
        let client = port::accept(&listener).await;
        seen.connections.fetch_add(1, Ordering::SeqCst);
        tokio::spawn(converse(client, script.clone(), seen.clone()));
    }
}

async fn converse(mut client: TcpStream, script: Arc<Script>, seen: Arc<Seen>) -> io::Result<()> {
    let _open = Open::new(Arc::clone(&seen));
    client.set_nodelay(true)?;
    let mut received = Vec::new();
    while client.read_buf(&mut received).await? > 0 {
        while let Some((value, length)) = decode(&received) {
            received.drain(..length);
            let command: Command = value.items().into_iter().filter_map(Resp::bytes).collect();
            seen.commands.lock().unwrap_or_else(PoisonError::into_inner).push(command.clone());
            match script(&command) {
                Reaction::Reply(bytes) => client.write_all(&bytes).await?,
                Reaction::Silence => {}
                Reaction::Close => return Ok(()),
                Reaction::Endless(bytes) => {
                    return repeat(client, &bytes, &vec![b'1'; 1 << 16]).await;
                }
                Reaction::Repeated(bytes, again) => {
                    let times = (1 << 16) / again.len().max(1);
                    return repeat(client, &bytes, &again.repeat(times.max(1))).await;
                }
                Reaction::Drip(bytes) => return drip(client, &bytes).await,
                Reaction::Truncated(bytes) => return client.write_all(&bytes).await,
            }
        }
    }
    Ok(())
}

async fn repeat(mut client: TcpStream, first: &[u8], again: &[u8]) -> io::Result<()> {
    client.write_all(first).await?;
    loop {
        client.write_all(again).await?;
    }
}

async fn drip(mut client: TcpStream, bytes: &[u8]) -> io::Result<()> {
    let mut ticks = tokio::time::interval(Duration::from_millis(100));
    for byte in bytes.iter().chain(std::iter::repeat(&b'1')) {
        ticks.tick().await;
        client.write_all(&[*byte]).await?;
    }
    Ok(())
}
