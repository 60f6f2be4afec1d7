//! The command line.

use std::net::SocketAddr;

pub(crate) const USAGE: &str = "\
A lock holder that is frozen past its lock's validity, and a storage that turns its late
write away by the fencing token.

usage: fencing [--rounds COUNT] [--check]

  --rounds COUNT  how often a holder is late (default: 1, with --check: 3)
  --check         for scripts; in any case, the exit code is 1 if a promise did not hold
  --help          print this

environment:
  REDLOCK_NODES   independent Redis servers, redis://host:port[,redis://host:port...];
                  without it, five nodes inside this process
";

pub(crate) enum Command {
    Story { rounds: usize },
    Worker(Part),
    Help,
}

/// Who a worker is, and where it writes.
#[derive(Clone)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) storage: SocketAddr,
}

pub(crate) fn parse(args: impl IntoIterator<Item = String>) -> Result<Command, String> {
    let mut args = args.into_iter();
    let (mut rounds, mut check) = (None, false);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--rounds" => {
                let count = args.next().and_then(|count| count.parse().ok());
                let count = count.filter(|count| *count > 0);
                rounds = Some(count.ok_or("--rounds needs a number, 1 or more")?);
            }
            "--check" => check = true,
            "--help" | "-h" => return Ok(Command::Help),
            // How this program starts itself as a worker.
            "--worker" => {
                let name = args.next().ok_or("--worker needs a name and an address")?;
                let storage = args.next().and_then(|addr| addr.parse().ok());
                let storage = storage.ok_or("--worker needs a name and an address")?;
                return Ok(Command::Worker(Part { name, storage }));
            }
            _ => return Err(format!("unknown argument {arg}")),
        }
    }
    Ok(Command::Story { rounds: rounds.unwrap_or(if check { 3 } else { 1 }) })
}
