//! The tag under which a server votes for this client.

use std::sync::Arc;

use crate::{
    node::redis::{
        encode::Keys,
        enrol::{SetAdmission, Tag},
    },
    protocol::views::View,
};

/// The tag under which a server votes for this client. A server without one has no vote.
#[derive(Debug)]
pub(super) struct VotingTag {
    tag: Tag,
    /// The view that the tag stands for; `None` without the restart guard.
    pub(super) view: Option<Arc<View>>,
    /// The key of the fences under the tag.
    pub(super) fences: String,
}

impl VotingTag {
    /// Returns the tag of a server that votes; `None` if the server does not vote.
    pub(super) fn of(admission: SetAdmission, keys: &Keys) -> Option<Arc<Self>> {
        let SetAdmission { tag, view, .. } = admission;
        debug_assert!(tag.is_some() || view.is_none(), "a view belongs to a tag");
        let tag = tag?;
        assert!(tag.is_active(), "only an active tag votes: {tag:?}");
        let fences = keys.fences(&tag);
        Some(Arc::new(Self { tag, view, fences }))
    }

    pub(super) fn text(&self) -> &str {
        self.tag.text()
    }
}
