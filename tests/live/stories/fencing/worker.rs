//! A worker: takes the lock, writes a draft, checks that it still holds the lock, waits for an input,
//! and writes the final version.

use std::{
    fmt,
    io::{self, Read, Write},
    net::TcpStream,
    str::FromStr,
    time::Duration,
};

use tower_redlock::{FencingToken, LockContext, RedlockBuilder};

use crate::stories::{
    Failure,
    member::{Input, Part, print},
};

pub(crate) const FILE: &str = "report";
/// Short, so that the lock of a frozen holder is soon free.
pub(crate) const TTL: Duration = Duration::from_secs(1);
/// How long a worker waits for the lock.
const WAIT: Duration = Duration::from_secs(20);

/// A line of a worker.
#[derive(Debug, PartialEq)]
pub(crate) enum Report {
    Wrote { token: u64, status: u16 },
    Checked { token: u64 },
    Done,
}

pub(crate) async fn work(builder: RedlockBuilder, part: Part, input: Input) -> Result<(), Failure> {
    let redlock = builder.build()?;
    let request = redlock.lock(format!("file:{FILE}")).ttl(TTL).wait(WAIT);
    let work = async |lock: LockContext| {
        let token = lock.fencing_token();
        let put = |version| {
            let status = put(&part.arg, token, &content(&part.name, version))?;
            print(&Report::Wrote { token: token.get(), status });
            Ok::<_, Failure>(())
        };
        put("draft")?;
        lock.ensure_valid()?;
        print(&Report::Checked { token: token.get() });
        // The lock is valid here. Between the check and the write any time may pass: a pause of the
        // process, a slow disk, a long computation. Nothing but the token helps.
        if input.next() {
            put("final")?;
        }
        Ok::<_, Failure>(())
    };
    request.run(work).await??;
    print(&Report::Done);
    redlock.shutdown().await;
    Ok(())
}

/// Writes, and blocks meanwhile: a poll that has begun can't be stopped.
fn put(storage: &str, token: FencingToken, content: &str) -> io::Result<u16> {
    let mut stream = TcpStream::connect(storage)?;
    write!(
        stream,
        "PUT /files/{FILE} HTTP/1.1\r\nhost: storage\r\nconnection: close\r\n\
         fencing-token: {token}\r\ncontent-length: {}\r\n\r\n{content}",
        content.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    status.ok_or_else(|| io::Error::other("no answer from the storage"))
}

pub(crate) fn content(name: &str, version: &str) -> String {
    format!("the {version} report of {name}")
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrote { token, status } => write!(f, "wrote {token} {status}"),
            Self::Checked { token } => write!(f, "checked {token}"),
            Self::Done => f.write_str("done"),
        }
    }
}

impl FromStr for Report {
    type Err = Failure;

    fn from_str(line: &str) -> Result<Self, Failure> {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["wrote", token, status] => {
                Ok(Self::Wrote { token: token.parse()?, status: status.parse()? })
            }
            ["checked", token] => Ok(Self::Checked { token: token.parse()? }),
            ["done"] => Ok(Self::Done),
            _ => Err(format!("unknown line: {line}").into()),
        }
    }
}
