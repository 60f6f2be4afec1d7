//! R14: nodes are told who owns the other names.

use ::redis::{Pipeline, Value};

use super::NodeSet;
use crate::{
    error::Reason,
    node::redis::{
        decode::{int, reason, text},
        scripts,
    },
    protocol::names::Incarnation,
};

/// Tells a node the owners of the other names, by index. It keeps those that are later than what it
/// has.
pub(super) async fn inform(
    set: &NodeSet,
    node: usize,
    owners: &[Option<Incarnation>],
) -> Result<(), Reason> {
    let mut pipeline = Pipeline::with_capacity(1);
    let cmd = pipeline.cmd("EVAL").arg(scripts::OWN.text(set.knows_flags(node))).arg(1);
    cmd.arg(&set.keys.meta).arg(&*set.layout.hash);
    for other in set.others(node) {
        let owner = owners[other].map(|owner| owner.to_string()).unwrap_or_default();
        cmd.arg(&**set.members()[other].status.name()).arg(owner);
    }
    let items = match set.ask(node, pipeline).await?.into_iter().next() {
        Some(Value::Array(items)) => items,
        Some(Value::ServerError(error)) => return Err(reason(&error)),
        _ => return Err(Reason::Protocol("no answer to the owners of names".into())),
    };
    match items.first().and_then(int) {
        Some(1) => Ok(()),
        _ => Err(Reason::WrongTag { found: items.get(1).map(text).unwrap_or_default() }),
    }
}
