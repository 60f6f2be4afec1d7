use std::sync::Arc;

/// What a node stores of its enrolment, and what every voting script compares as one string:
/// state, incarnation (32 digits), layout (16 digits), and in probation a nonce. The states: `a`
/// active, `p` in probation, `m` in probation and moved from a set that may still grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::node::redis) struct Tag(Arc<str>);

impl Tag {
    pub(in crate::node::redis) fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The tag of an active node.
    pub(in crate::node::redis) fn active(incarnation: &str, layout: &str) -> Self {
        Self(format!("a {incarnation} {layout}").into())
    }

    pub(in crate::node::redis) fn text(&self) -> &Arc<str> {
        &self.0
    }

    pub(in crate::node::redis) fn is_active(&self) -> bool {
        self.0.starts_with("a ")
    }

    pub(in crate::node::redis) fn is_probation(&self) -> bool {
        self.0.starts_with("p ") || self.is_moved()
    }

    pub(in crate::node::redis) fn is_moved(&self) -> bool {
        self.0.starts_with("m ")
    }

    pub(in crate::node::redis) fn incarnation(&self) -> &str {
        self.0.get(2..34).unwrap_or_default()
    }

    pub(in crate::node::redis) fn layout(&self) -> &str {
        self.0.get(35..51).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_where_the_scripts_look_for_them() {
        let (incarnation, layout) = ("0123456789abcdef0123456789ABCDEF", "00112233aabbccdd");
        let active = Tag::active(incarnation, layout);
        assert!(active.is_active() && !active.is_probation());
        assert_eq!((active.incarnation(), active.layout()), (incarnation, layout));
        let probation = Tag::new(format!("p {incarnation} {layout} 0102030405060708"));
        assert!(probation.is_probation() && probation.layout() == layout);
        let moved = Tag::new(format!("m {incarnation} {layout} 0102030405060708"));
        assert!(moved.is_probation() && moved.is_moved() && !probation.is_moved());
        assert_eq!(Tag::new("").layout(), "");
    }
}
