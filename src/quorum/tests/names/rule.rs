//! The parts of the rule, and which of them is left out.

/// A part of the rule that a control leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Answers count together, and servers witness, only if they name each other.
    Views,
    /// N−q+1 witnesses; without it one less.
    EnoughWitnesses,
    /// Witnesses are active.
    ActiveWitnesses,
    /// Witnesses name each other.
    AgreeingWitnesses,
    /// A server in probation takes over the owners that its witnesses store.
    Merge,
    /// The wait begins when the witnesses name the server, not when it was enrolled.
    Wait,
    /// Extensions count together only if their servers name each other.
    ViewsOnExtensions,
    /// An activated server learns the fences.
    Fences,
    /// A server in probation refuses extensions.
    NoExtensionsInProbation,
    /// A fence is learnt only from a witness whose tag is still the one that was read.
    WitnessTags,
    /// A server is activated only with the tag that was read.
    ActivationTag,
    /// A displaced server is enrolled with a greater epoch.
    Epochs,
    /// A client does not drive a server that it knows to be displaced.
    DisplacedNotDriven,
    /// A start with too few others to learn from takes all of N−q+1 others along.
    WholeStarts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    /// The part that is left out.
    pub(super) without: Option<Part>,
    /// Whether a set may start by itself.
    pub(super) bootstrap: bool,
}

impl Rule {
    pub(super) const WHOLE: Self = Self { without: None, bootstrap: false };

    pub(super) fn has(self, part: Part) -> bool {
        self.without != Some(part)
    }
}
