//! Command-line options of a worker.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::cell::Client;

/// The subcommand.
pub(crate) const WORKER: &str = "worker";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WorkerOptions {
    pub(crate) worker: usize,
    pub(crate) client: Client,
    /// The driver's address.
    pub(crate) control: SocketAddr,
    /// File of the servers' names and addresses.
    pub(crate) hosts: PathBuf,
    /// File of the password.
    pub(crate) password: PathBuf,
    pub(crate) tls: bool,
}

impl WorkerOptions {
    pub(crate) fn to_args(&self) -> Vec<String> {
        vec![
            WORKER.into(),
            self.worker.to_string(),
            self.client.name().into(),
            self.control.to_string(),
            self.hosts.display().to_string(),
            self.password.display().to_string(),
            self.tls.to_string(),
        ]
    }

    /// Parses the arguments after the subcommand.
    pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Option<Self> {
        let worker = args.next()?.parse().ok()?;
        let client = args.next()?;
        let client = Client::ALL.into_iter().find(|one| one.name() == client)?;
        let options = Self {
            worker,
            client,
            control: args.next()?.parse().ok()?,
            hosts: args.next()?.into(),
            password: args.next()?.into(),
            tls: args.next()?.parse().ok()?,
        };
        args.next().is_none().then_some(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_round_trip() {
        for client in Client::ALL {
            let options = WorkerOptions {
                worker: 1,
                client,
                control: "127.0.0.1:7".parse().expect("an address"),
                hosts: "/a/hosts".into(),
                password: "/a/password".into(),
                tls: true,
            };
            let args = options.to_args();
            assert_eq!(args[0], WORKER);
            assert_eq!(WorkerOptions::parse(args.into_iter().skip(1)), Some(options));
        }
    }
}
