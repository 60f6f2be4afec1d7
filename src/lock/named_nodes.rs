//! Checks of the settings for nodes that Sentinels or a Cluster locate.

use crate::{
    error::BuildError,
    node::redis::{Endpoint, RestartGuard, hash_tag},
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

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoints(urls: &[&str]) -> Vec<Endpoint> {
        urls.iter().map(|url| Endpoint::parse(1, url).unwrap()).collect()
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
