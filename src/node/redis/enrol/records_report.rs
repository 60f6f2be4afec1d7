//! A node's report of whether it has all long-lived records.

use std::sync::Arc;

use ::redis::{Pipeline, Value};

use super::{NodeSet, Tag, bulk_connection::BulkConnection};
use crate::{
    error::Reason,
    node::redis::values::{list, text},
};

/// The state of a node's records.
pub(super) struct RecordsReport {
    pub(super) tag: Tag,
    /// `LEARNT` or `BOOTSTRAPPED` of `node_report` with the nonce of the probation, or nothing.
    /// Together with the tag it identifies the activation.
    pub(super) once: Arc<str>,
}

impl RecordsReport {
    /// Reads it over a connection for bulk data.
    pub(super) async fn read(
        set: &NodeSet,
        connection: &mut BulkConnection,
    ) -> Result<Self, Reason> {
        Self::parse(set, connection.ask(&Self::request(set)).await?)
    }

    /// Reads it over the connection for votes.
    pub(super) async fn of_node(set: &NodeSet, node: usize) -> Result<Self, Reason> {
        Self::parse(set, set.ask(node, Self::request(set)).await?)
    }

    fn request(set: &NodeSet) -> Pipeline {
        let mut pipeline = Pipeline::with_capacity(1);
        pipeline.cmd("HMGET").arg(&set.keys.meta).arg("tag").arg("once");
        pipeline
    }

    fn parse(set: &NodeSet, answers: Vec<Value>) -> Result<Self, Reason> {
        let items = list(answers)?;
        let tag = Tag::new(items.first().map(text).unwrap_or_default());
        let once = items.get(1).map(text).unwrap_or_default();
        if tag.layout() != &*set.layout.hash {
            return Err(Reason::WrongTag { found: Arc::clone(tag.text()) });
        }
        Ok(Self { tag, once })
    }

    /// Returns whether the node lacks no records.
    pub(super) fn is_complete(&self) -> bool {
        self.once.is_empty()
    }

    /// Checks that the node was neither enrolled again nor found to have forgotten since `begun`.
    pub(super) fn are_those_of(&self, begun: &Self) -> Result<(), Reason> {
        let same = self.tag.enrolment() == begun.tag.enrolment() && self.once == begun.once;
        let found = || Arc::clone(self.tag.text());
        if same { Ok(()) } else { Err(Reason::WrongTag { found: found() }) }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::node_report::BOOTSTRAPPED, *};

    fn records(enrolment: &str, owners: &str, once: &str) -> RecordsReport {
        let tag = Tag::new(format!("a {enrolment:0>75} {owners}"));
        RecordsReport { tag, once: once.into() }
    }

    #[test]
    fn reports_of_one_activation_are_equal() {
        let begun = records("1", "x", BOOTSTRAPPED);
        assert!(records("1", "other", BOOTSTRAPPED).are_those_of(&begun).is_ok());
        for other in [records("2", "x", BOOTSTRAPPED), records("1", "x", "")] {
            let found = Arc::clone(other.tag.text());
            assert_eq!(other.are_those_of(&begun), Err(Reason::WrongTag { found }));
        }
        assert!(!begun.is_complete() && records("1", "x", "").is_complete());
    }

    impl RecordsReport {
        pub(in super::super) fn of_tests(once: &str) -> Self {
            records("1", "x", once)
        }
    }
}
