//! Command-line options of a worker.

use std::net::SocketAddr;
use std::str::FromStr;

/// The options that the parent passes to a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WorkerOptions {
    pub(crate) worker: usize,
    pub(crate) seed: u64,
    pub(crate) tasks: usize,
    pub(crate) client: Client,
}

/// The client that acquires the locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    /// This crate, over nodes with these URLs.
    Redlock { urls: [String; 3], is_guarded: bool },
    /// The control, with the master that these Sentinels report.
    Plain { sentinels: Vec<SocketAddr> },
}

/// The subcommand.
pub(crate) const WORKER: &str = "worker";

impl WorkerOptions {
    pub(crate) fn to_args(&self) -> Vec<String> {
        let mut args = vec![
            WORKER.into(),
            self.worker.to_string(),
            self.seed.to_string(),
            self.tasks.to_string(),
        ];
        match &self.client {
            Client::Redlock { urls, is_guarded } => {
                args.push(if *is_guarded { "guarded" } else { "unguarded" }.into());
                args.extend_from_slice(urls);
            }
            Client::Plain { sentinels } => {
                args.push("plain".into());
                args.extend(sentinels.iter().map(SocketAddr::to_string));
            }
        }
        args
    }

    /// Parses the arguments after the subcommand.
    pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Option<Self> {
        let worker = next(&mut args)?;
        let seed = next(&mut args)?;
        let tasks = next(&mut args)?;
        let kind = args.next()?;
        let places: Vec<_> = args.collect();
        let client = match kind.as_str() {
            "plain" => {
                let sentinels = places.iter().map(|place| place.parse().ok());
                Client::Plain { sentinels: sentinels.collect::<Option<_>>()? }
            }
            "guarded" | "unguarded" => {
                Client::Redlock { urls: places.try_into().ok()?, is_guarded: kind == "guarded" }
            }
            _ => return None,
        };
        Some(Self { worker, seed, tasks, client })
    }
}

fn next<T: FromStr>(args: &mut impl Iterator<Item = String>) -> Option<T> {
    args.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_come_back_from_their_arguments() {
        let urls = ["a", "b", "c"].map(str::to_owned);
        let sentinels = vec![SocketAddr::from(([127, 0, 0, 1], 1))];

        for client in [
            Client::Redlock { urls: urls.clone(), is_guarded: true },
            Client::Redlock { urls, is_guarded: false },
            Client::Plain { sentinels },
        ] {
            let options = WorkerOptions { worker: 1, seed: 42, tasks: 6, client };
            let args = options.to_args();
            assert_eq!(args[0], WORKER);
            assert_eq!(WorkerOptions::parse(args.into_iter().skip(1)), Some(options));
        }
    }
}
