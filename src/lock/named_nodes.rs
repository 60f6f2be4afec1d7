//! Checks of the settings for nodes that Sentinels or a Cluster locate.

use crate::{
    error::BuildError,
    node::redis::{Endpoint, RestartGuard, TlsOptions, hash_tag},
};

/// Refuses a prefix whose keys would be on several servers of a Cluster.
pub(super) fn check_prefix(prefix: &str, endpoints: &[Endpoint]) -> Result<(), BuildError> {
    let is_cluster = |at: &Endpoint| at.directory().is_some_and(|directory| directory.is_cluster());
    if hash_tag(prefix).is_some() || !endpoints.iter().any(is_cluster) {
        return Ok(());
    }
    let reason = format!(
        "`{prefix}` has no hash tag, which keeps the keys on one server of a Cluster: set \
         `{{{prefix}}}` in all clients. That is another set of keys: first stop all clients with the \
         former prefix, whose locks and records this one does not know"
    );
    Err(BuildError::setting("key_prefix", reason))
}

/// Logs settings that make failovers dangerous.
pub(super) fn warn_of_failovers(endpoints: &[Endpoint], guard: RestartGuard) {
    let named =
        || endpoints.iter().enumerate().filter_map(|(i, node)| Some((i, node, node.directory()?)));
    if guard == RestartGuard::Off {
        for (_, node, _) in named() {
            crate::log::warn!(
                node = %node.name,
                "without the restart guard, a server votes right after its failover: locks that it has lost are granted twice"
            );
        }
    }
    for (i, node, directory) in named() {
        for (_, other, others) in named().skip_while(|(j, ..)| *j <= i) {
            let is_shared = |server: &&_| others.servers().contains(server);
            if let Some(shared) = directory.servers().iter().find(is_shared) {
                crate::log::warn!(
                    node = %node.name,
                    other = %other.name,
                    "both are found by {shared}: one that is wrong, or hostile, can move two nodes at once; give each its own"
                );
            }
        }
    }
}

/// Logs nodes whose password goes to any server that Sentinels or a Cluster name.
pub(super) fn warn_of_any_host(endpoints: &[Endpoint], tls: Option<&TlsOptions>) {
    for node in with_any_host(endpoints, tls) {
        crate::log::warn!(
            node = %node.name,
            "its server may have any certificate that the system trusts, as Sentinels or a Cluster choose the name: add ?hosts=*.your.domain to its URL, or set ca or server_name"
        );
    }
}

/// Returns the nodes whose certificate is only compared with the name that a directory sent.
fn with_any_host<'a>(
    endpoints: &'a [Endpoint],
    tls: Option<&TlsOptions>,
) -> impl Iterator<Item = &'a Endpoint> {
    let is_checked = tls
        .is_some_and(|tls| tls.ca.is_some() || tls.ca_file.is_some() || tls.server_name.is_some());
    let takes_any =
        |node: &Endpoint| node.directory().is_some_and(|directory| directory.hosts.is_empty());
    endpoints.iter().filter(move |node| !is_checked && node.tls && takes_any(node))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoints(urls: &[&str]) -> Vec<Endpoint> {
        urls.iter().map(|url| Endpoint::parse(1, url).unwrap()).collect()
    }

    #[test]
    #[cfg(feature = "tls")]
    fn hosts_of_named_nodes_are_limited_by_settings() {
        let nodes = endpoints(&[
            "rediss://h",
            "redis+sentinel://a/locks?sentinel_tls=yes",
            "rediss+sentinel://b/locks",
            "rediss+sentinel://c/locks?sentinel_tls=no",
            "rediss+sentinel://d/locks?hosts=*.locks.internal",
            "rediss+cluster://e",
        ]);
        let of = |tls: Option<TlsOptions>| {
            let names = with_any_host(&nodes, tls.as_ref()).map(|node| node.name.to_string());
            names.collect::<Vec<_>>()
        };

        let any = ["locks@b:26379/0", "locks@c:26379/0", "cluster@e:6379"];
        assert_eq!(of(None), any);
        assert_eq!(of(Some(TlsOptions::new().client_files("c", "k"))), any);
        for tls in [
            TlsOptions::new().ca("pem"),
            TlsOptions::new().ca_file("path"),
            TlsOptions::new().server_name("locks"),
        ] {
            assert_eq!(of(Some(tls)), [""; 0]);
        }
    }

    #[test]
    fn clusters_need_a_hash_tag() {
        let cluster = endpoints(&["redis://h", "redis+cluster://c:1,c:2"]);

        for prefix in ["redlock", "{}redlock", "}a{"] {
            let error = check_prefix(prefix, &cluster).unwrap_err().to_string();
            let proposed = format!("set `{{{prefix}}}` in all clients");
            assert!(error.starts_with("key_prefix: ") && error.contains(&proposed), "{error}");
        }
        check_prefix("{redlock}", &cluster).unwrap();
        check_prefix("a{b}", &cluster).unwrap();
        check_prefix("redlock", &endpoints(&["redis://h", "redis+sentinel://s/locks"])).unwrap();
    }
}
