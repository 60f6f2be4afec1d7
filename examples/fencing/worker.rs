//! A worker: takes the lock, writes a draft, thinks, checks that it still holds the lock, and
//! writes the final version.

use std::{
    fmt,
    io::{self, Read, Write},
    net::TcpStream,
    str::FromStr,
    time::Duration,
};

use tower_redlock::{FencingToken, LockContext, Redlock};

use crate::{Failure, args::Part};

pub(crate) const FILE: &str = "report";
/// Short, so that nobody waits for long until the lock of a frozen holder is free.
pub(crate) const TTL: Duration = Duration::from_secs(1);
/// For how long a worker waits for its turn.
const WAIT: Duration = Duration::from_secs(20);

/// What a worker says, in a line each.
#[derive(Debug, PartialEq)]
pub(crate) enum Said {
    Wrote { token: u64, status: u16 },
    Checked { token: u64 },
    Done,
}

/// Works once. `say` tells of it; `hear` blocks until the word to go on, and is false if none will
/// come.
pub(crate) async fn work(
    redlock: &Redlock,
    part: &Part,
    renews: bool,
    say: impl Fn(String),
    hear: impl Fn() -> bool,
) -> Result<(), Failure> {
    let request = redlock.lock(format!("file:{FILE}")).ttl(TTL).wait(WAIT).auto_extend(renews);
    let (say, hear) = (&say, &hear);
    let work = async move |lock: LockContext| {
        let token = lock.fencing_token();
        let wrote = |status| say(Said::Wrote { token: token.get(), status }.to_string());
        wrote(put(part, token, "draft")?);
        lock.ensure_valid()?;
        say(Said::Checked { token: token.get() }.to_string());
        // All is well up to here. What comes between the check and the write may take any time: a
        // pause of the process, a slow disk, a long computation. Nothing but the token helps.
        if hear() {
            wrote(put(part, token, "final")?);
        }
        Ok::<_, Failure>(())
    };
    request.run(work).await??;
    say(Said::Done.to_string());
    Ok(())
}

/// Writes, and blocks meanwhile: a poll that has begun is not stopped.
fn put(part: &Part, token: FencingToken, version: &str) -> io::Result<u16> {
    let content = content(&part.name, version);
    let mut stream = TcpStream::connect(part.storage)?;
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

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrote { token, status } => write!(f, "wrote {token} {status}"),
            Self::Checked { token } => write!(f, "checked {token}"),
            Self::Done => f.write_str("done"),
        }
    }
}

impl FromStr for Said {
    type Err = Failure;

    fn from_str(line: &str) -> Result<Self, Failure> {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["wrote", token, status] => {
                Ok(Self::Wrote { token: token.parse()?, status: status.parse()? })
            }
            ["checked", token] => Ok(Self::Checked { token: token.parse()? }),
            ["done"] => Ok(Self::Done),
            _ => Err(format!("a worker said: {line}").into()),
        }
    }
}
