//! Names of servers that a file resolves, read at each connect.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::{fs, future, io};

use tower_redlock::node::redis::{Address, Connecting, Connector, SocketConnector};

#[derive(Clone, Debug)]
pub(crate) struct Hosts(PathBuf);

impl Hosts {
    pub(crate) fn new(file: &Path) -> Self {
        Self(file.to_owned())
    }

    pub(crate) fn resolve(&self, host: &str) -> io::Result<SocketAddr> {
        let text = fs::read_to_string(&self.0)?;
        let address = text.lines().find_map(|line| line.strip_prefix(host)?.strip_prefix(' '));
        let address = address.and_then(|address| address.parse().ok());
        address.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the name has no address"))
    }
}

impl Connector for Hosts {
    fn connect(&self, address: &Address) -> Connecting {
        let resolved = match address {
            Address::Tcp { host, .. } => self.resolve(host),
            other => Err(io::Error::other(format!("not a name: {other}"))),
        };
        match resolved {
            Ok(to) => {
                let address = Address::Tcp { host: to.ip().to_string(), port: to.port() };
                SocketConnector::new().connect(&address)
            }
            Err(error) => Box::pin(future::ready(Err(error))),
        }
    }
}

#[cfg(test)]
mod tests {
    use tower_redlock_verify::support::temp_dir::TempDir;

    use super::*;

    #[test]
    fn changed_file_changes_addresses() {
        let dir = TempDir::new();
        let file = dir.path().join("hosts");

        let hosts = Hosts::new(&file);

        assert!(hosts.resolve("a").is_err());

        for port in [1, 2] {
            fs::write(&file, format!("ab 127.0.0.1:9\na 127.0.0.1:{port}\n"))
                .expect("our directory");
            let address = hosts.resolve("a").expect("an address");
            assert_eq!(address, SocketAddr::from(([127, 0, 0, 1], port)));
        }

        assert!(hosts.resolve("b").is_err());
    }
}
