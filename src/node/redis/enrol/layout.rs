//! The identity of a set of nodes, and the tag that a node stores of its enrolment.

use std::sync::Arc;

use crate::{
    hash::fnv,
    node::redis::RestartGuard,
    protocol::views::Incarnation,
    switches::{self, Switch},
};

/// The identity of a set of nodes. Clients with different layouts never vote on the same node: two
/// majorities of different sets need not share a node.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// 16 hexadecimal digits.
    pub(crate) hash: Arc<str>,
    /// The text that is hashed, for display.
    pub(crate) description: Arc<str>,
}

/// The form of the data that a node stores. A client of another form never votes on the same node:
/// it reports this text.
const FORM: &str = "form 3 (upgrade a client that reports this as another set of its own nodes)";

impl Layout {
    pub(crate) fn new(names: &[Arc<str>], prefix: &str, guard: RestartGuard) -> Self {
        let mut sorted: Vec<&str> = names.iter().map(|name| &**name).collect();
        sorted.sort_unstable();
        let sorted = if switches::is_out(Switch::LayoutCheck) { Vec::new() } else { sorted };
        let description = format!(
            "{} nodes ({}), prefix {prefix}, restart guard {guard}, {FORM}",
            sorted.len(),
            sorted.join(", ")
        );
        let hash = format!("{:016x}", fnv(&description)).into();
        Self { hash, description: description.into() }
    }
}

/// The enrolment that a node stores: state, run and history (32 digits), layout (16), nonce (16),
/// epoch (8), view (a hash of layout and owners of all names, 16), and `max_ttl`. The states are
/// `a` for active, `p` for in probation, and `m` for in probation and moved from a set that may
/// still grant. Without the restart guard the tag ends after the layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tag(Arc<str>);

impl Tag {
    pub(crate) fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    pub(crate) fn text(&self) -> &Arc<str> {
        &self.0
    }

    pub(crate) fn is_active(&self) -> bool {
        self.0.starts_with("a ")
    }

    pub(crate) fn is_probation(&self) -> bool {
        self.0.starts_with("p ") || self.is_moved()
    }

    pub(crate) fn is_moved(&self) -> bool {
        self.0.starts_with("m ")
    }

    /// Returns the run and history under which the node was enrolled.
    pub(crate) fn run(&self) -> &str {
        self.0.get(2..34).unwrap_or_default()
    }

    /// Returns the incarnation; `None` without the restart guard, and if an earlier version
    /// enrolled the node.
    pub(crate) fn incarnation(&self) -> Option<Incarnation> {
        let (nonce, epoch) = (self.0.get(52..68)?, self.0.get(69..77)?);
        Incarnation::parse(&format!("{epoch} {} {nonce}", self.run()))
    }

    /// Returns whether the tag has all parts. It lacks some without the restart guard, and if an
    /// earlier version enrolled the node.
    pub(super) fn is_complete(&self) -> bool {
        self.0.get(94..95) == Some("-")
    }

    /// Returns the hash of the view, which is the same on nodes that may vote together; without the
    /// restart guard the layout.
    pub(crate) fn view(&self) -> &str {
        if self.is_complete() { &self.0[78..94] } else { self.layout() }
    }

    /// Returns the name of the fences: the view, and the node's `max_ttl`.
    pub(crate) fn fences(&self) -> &str {
        if self.is_complete() { &self.0[78..] } else { self.layout() }
    }

    /// Returns the reference to the enrolment in other fields: a space and the nonce.
    pub(super) fn enrolment_ref(&self) -> &str {
        self.0.get(51..68).unwrap_or_default()
    }

    /// Returns the tag without the view and `max_ttl`, which may change at any time.
    pub(crate) fn enrolment(&self) -> &str {
        self.0.get(..77).unwrap_or(&self.0)
    }

    pub(crate) fn layout(&self) -> &str {
        self.0.get(35..51).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(names: &[&str], guard: RestartGuard) -> Layout {
        let names: Vec<Arc<str>> = names.iter().map(|name| (*name).into()).collect();
        Layout::new(&names, "redlock", guard)
    }

    #[test]
    fn only_node_order_is_irrelevant() {
        let guard = RestartGuard::Probation;
        let base = layout(&["a:1/0", "b:1/0"], guard);

        assert_eq!(base.hash, layout(&["b:1/0", "a:1/0"], guard).hash);
        assert_eq!(base.hash.len(), 16);

        let others = [
            layout(&["a:1/0", "b:1/0", "c:1/0"], guard),
            layout(&["a:1/0", "b:1/1"], guard),
            layout(&["a:1/0", "b:1/0"], RestartGuard::Off),
            Layout::new(&["a:1/0".into(), "b:1/0".into()], "other", guard),
        ];

        assert!(others.iter().all(|other| other.hash != base.hash));
    }

    /// With another hash, every set of an earlier version would become a different set.
    #[test]
    fn hash_is_stable() {
        let base = layout(&["a:1/0", "b:1/0"], RestartGuard::Probation);
        assert_eq!(
            &*base.description,
            "2 nodes (a:1/0, b:1/0), prefix redlock, restart guard on, form 3 (upgrade a client that reports this as another set of its own nodes)"
        );
        assert_eq!(&*base.hash, "d90dc8fbeb4cd6a4");
    }

    #[test]
    fn parts_are_where_scripts_look() {
        let (run, layout) = ("0123456789abcdef0123456789abcdef", "00112233aabbccdd");
        let (nonce, view) = ("0102030405060708", "1122334455667788");
        let tag = |state| Tag::new(format!("{state} {run} {layout} {nonce} 0000000a {view}-7000"));

        let [active, probation, moved] = ["a", "p", "m"].map(tag);

        assert!(active.is_active() && !active.is_probation());
        assert!(probation.is_probation() && !probation.is_moved());
        assert!(moved.is_probation() && moved.is_moved());
        assert_eq!((active.run(), active.layout()), (run, layout));
        assert_eq!((active.view(), active.fences()), (view, "1122334455667788-7000"));
        assert_eq!(active.enrolment(), format!("a {run} {layout} {nonce} 0000000a"));

        let incarnation = Incarnation {
            epoch: 10,
            id: 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef,
            nonce: 0x0102_0304_0506_0708,
        };

        assert_eq!(active.incarnation(), Some(incarnation));
    }

    #[test]
    fn short_tags_have_no_incarnation() {
        let run = "0".repeat(32);
        let unguarded = Tag::new(format!("a {run} 00112233aabbccdd"));
        assert_eq!((unguarded.layout(), unguarded.incarnation()), ("00112233aabbccdd", None));
        assert_eq!((Tag::new("").layout(), Tag::new("").incarnation()), ("", None));
    }
}
