//! The sets of one manager, of which each takes servers only if no other one shows another list (R17).
//!
//! A set whose servers are new, or are unused, would vote for any list, and a client of another list
//! would lock the same names elsewhere. But that client's list has servers in common with this one, and
//! they show it.

use super::{AdminRequest, NodeSet};
use crate::{
    protocol::formulas,
    switches::{self, Switch},
    sync::atomic::Ordering,
    time::{Clock, Timestamp},
};

impl NodeSet {
    /// Returns whether servers may join this set: each other set of the list has shown a quorum that
    /// is not of another list.
    pub(super) fn may_take_servers(&self) -> bool {
        let now = self.clock.now();
        self.is_true_of_others(|other| other.is_known_of_list() && !other.shows_other_list(now))
    }

    /// Returns whether servers of this set may begin to vote: no server of another set shows another
    /// list.
    pub(super) fn may_activate(&self) -> bool {
        let now = self.clock.now();
        self.is_true_of_others(|other| !other.shows_other_list(now))
    }

    fn is_true_of_others(&self, is_true: impl Fn(&Self) -> bool) -> bool {
        let list = self.list.get().filter(|_| !switches::is_out(Switch::OneList));
        let Some(list) = list else { return true };
        list.besides(self).is_some_and(|others| others.iter().all(|other| is_true(other)))
    }

    /// Returns whether a client of another list may use a server of this set.
    fn shows_other_list(&self, now: Timestamp) -> bool {
        let state = self.state();
        (0..state.run_ids.len()).any(|node| state.enrolment.may_be_used_elsewhere(node, now))
    }

    fn is_known_of_list(&self) -> bool {
        self.was_known.load(Ordering::Relaxed)
    }

    /// Notes that a quorum is connected, of which [`shows_other_list`](Self::shows_other_list) tells
    /// what it belongs to, and has the other sets look at servers that waited for that.
    pub(super) fn note_quorum(&self) {
        let connected = self.state().connected();
        let is_known =
            connected.iter().filter(|is| **is).count() >= formulas::quorum(connected.len());
        if !is_known || self.was_known.swap(true, Ordering::Relaxed) {
            return;
        }
        let others = self.list.get().and_then(|list| list.besides(self));
        for other in others.iter().flatten() {
            for member in other.members() {
                // Fails if the node was closed.
                let _ = member.admin.send(AdminRequest::Check);
            }
        }
    }
}
