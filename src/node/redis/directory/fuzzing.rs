//! Checks how arbitrary replies about a server's location are read.

use ::redis::Value;

use super::{cluster, sentinel};
use crate::{error::Reason, node::redis::Address};

/// Reads replies as the answers of a Sentinel and of a Cluster's node, and returns the errors.
///
/// A location that is found can be connected to.
pub(crate) fn places(values: &[Value]) -> Vec<Reason> {
    let asked = Address::Tcp { host: "h".into(), port: 1 };
    let answers = || values.iter().cloned().map(Ok).collect();
    let mut found = vec![sentinel::parse("locks", answers())];
    for tls in [false, true] {
        found.extend([0, 16_383].map(|slot| cluster::parse(slot, &asked, tls, answers())));
    }
    let mut errors = Vec::new();
    for place in found {
        match place {
            Ok(place) => {
                for address in place.others.iter().chain([&place.at]) {
                    let Address::Tcp { host, .. } = address else { panic!("{address}") };
                    assert!(Address::is_host(host), "{address}");
                }
            }
            Err(reason) => errors.push(reason),
        }
    }
    errors
}
