//! The hosts that a directory may name as a node's server.

use std::net::IpAddr;

use crate::node::redis::Address;

/// Patterns of hosts. Without any, every host is allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AllowedHosts(Vec<HostPattern>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum HostPattern {
    /// This name or address.
    Host(String),
    /// `*.redis.internal`: names with this end, in any number of labels.
    Domain(String),
    /// `10.0.*` or `fd00:*`: addresses with this beginning, in their shortest form.
    Network(String),
}

impl AllowedHosts {
    /// Parses `host,*.domain,10.0.*`; `None` for anything else.
    pub(crate) fn parse(list: &str) -> Option<Self> {
        list.split(',').map(HostPattern::parse).collect::<Option<_>>().map(Self)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn allow(&self, server: &Address) -> bool {
        let Address::Tcp { host, .. } = server else { return self.is_empty() };
        let host = host.to_ascii_lowercase();
        self.is_empty() || self.0.iter().any(|pattern| pattern.matches(&host))
    }
}

impl HostPattern {
    fn parse(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase();
        if Address::is_host(&text) {
            return Some(Self::Host(canonical(&text)));
        }
        if let Some(end) = text.strip_prefix('*') {
            // A name. `*.1` would be the end of an address.
            let is_name = end.starts_with('.') && end.contains(|c: char| c.is_ascii_alphabetic());
            return (is_name && Address::is_host(end)).then(|| Self::Domain(end.to_owned()));
        }
        let begin = text.strip_suffix('*')?;
        let is_address = begin.ends_with(['.', ':'])
            && begin.chars().all(|c| c.is_ascii_hexdigit() || matches!(c, '.' | ':'));
        is_address.then(|| Self::Network(begin.to_owned()))
    }

    fn matches(&self, host: &str) -> bool {
        let address = host.parse::<IpAddr>();
        match self {
            Self::Host(allowed) => canonical(host) == *allowed,
            Self::Domain(end) => address.is_err() && host.ends_with(end.as_str()),
            Self::Network(begin) => address.is_ok_and(|it| it.to_string().starts_with(begin)),
        }
    }
}

/// Returns the shortest form of an address; a name as it is.
fn canonical(host: &str) -> String {
    host.parse::<IpAddr>().map_or_else(|_| host.to_owned(), |address| address.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(list: &str, host: &str) -> bool {
        let hosts = AllowedHosts::parse(list).expect("a list of patterns");
        hosts.allow(&Address::Tcp { host: host.into(), port: 6379 })
    }

    #[test]
    fn hosts_outside_the_patterns_are_refused() {
        for (list, allowed, refused) in [
            (
                "db1,DB2.internal",
                &["db1", "DB1", "db2.internal"][..],
                &["db", "db1.evil", "db3"][..],
            ),
            (
                "*.redis.internal",
                &["a.redis.internal", "b.a.REDIS.internal"],
                &["redis.internal", "aredis.internal", "a.redis.internal.evil", "10.0.0.1"],
            ),
            (
                "10.0.*",
                &["10.0.0.1", "10.0.255.1"],
                &["10.1.0.1", "10.0.evil", "110.0.0.1", "10.00.0.1"],
            ),
            ("fd00:*,::1", &["fd00::7", "FD00::7", "0:0:0:0:0:0:0:1"], &["fd01::7", "fd00:evil"]),
        ] {
            for host in allowed {
                assert!(allows(list, host), "{list} allows {host}");
            }
            for host in refused {
                assert!(!allows(list, host), "{list} refuses {host}");
            }
        }
    }

    #[test]
    fn patterns_that_are_too_wide_are_refused() {
        for list in ["", "*", "a,", "*.", "*.1", "*a", "a*", "10*", "*.*", "10.*.1", "a/b", "a b"] {
            assert_eq!(AllowedHosts::parse(list), None, "{list:?}");
        }
    }

    #[test]
    fn every_host_is_allowed_without_patterns() {
        let hosts = AllowedHosts::default();

        assert!(hosts.allow(&Address::Tcp { host: "anything".into(), port: 1 }));
    }
}
