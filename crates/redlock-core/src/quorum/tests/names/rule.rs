//! The parts of the rule, one of which a control leaves out.

/// A part of the rule that a control leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RulePart {
    /// The enrolment of a server ends with its run; without it, a promoted replica keeps the
    /// enrolment of its former master.
    OwnRun,
    /// Answers count together, and servers witness, only with equal views.
    Views,
    /// N−q+1 witnesses; without it one less.
    EnoughWitnesses,
    /// Witnesses are active.
    ActiveWitnesses,
    /// The wait begins when the witnesses name the server, not when it was enrolled.
    Wait,
    /// Extensions count together only with equal views.
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
    /// Of two owners of a name the greater stands. Without it a server replaces an owner if it is
    /// the one that the client read, and keeps a list of those that it replaced: none of them comes
    /// back.
    GreaterOwner,
    /// A bootstrap takes q servers that forgot; without it, one that forgot bootstraps with q−1
    /// others of any kind.
    Starters,
    /// A bootstrap with fewer than N−q+1 others waits a TTL for those that are out of sight.
    Absence,
    /// The validity is shorter than the TTL by what clocks may differ.
    DriftInValidity,
    /// Records and claims count only over servers with equal views.
    ViewsOnWork,
    /// A server that lacks records does not say that there is none.
    Copies,
    /// Records are copied from N−q+1 servers that lack none, or from all; without it from any.
    EnoughCopies,
    /// Only for a server that was bootstrapped fewer are enough; without it also where a quorum
    /// lacks records.
    OwnBootstrap,
    /// A server that lacks records counts as read only while it votes.
    VotingSources,
    /// An activated server learns promises and claims.
    Claims,
    /// On a bootstrapped server the tick counts as started.
    Burnt,
    /// A probation is longer than a validity by what clocks may differ; without it just as long.
    WaitBeyondValidity,
    /// Those that leave a layout count only if they voted there, under one view.
    Leaving,
    /// N−q+1 leave the old layout before the new one begins; without it one less.
    EnoughLeave,
    /// A server is marked as moved until enough left.
    MovedMark,
    /// Every probation begins anew once enough left; without it, those of servers that were moved
    /// go on.
    Restarted,
    /// A moved server goes through a probation.
    MovedProbation,
    /// The fences of those that left are copied to the new layout.
    LeftFences,
    /// A moved server gets a greater epoch.
    MovedEpoch,
    /// A moved server forgets the owners that it knew.
    MovedOwners,
    /// No set starts by itself while a server of it belongs to another layout, or was moved from
    /// one that may still grant, nor before a probation has passed since.
    OldSet,
    /// A blank server that was last seen in another layout is not enrolled.
    Elsewhere,
    /// A vote by plain commands counts only if the second one finds the fences of the view.
    SecondCommand,
    /// The key of the fences is named by the view, and no view is made twice.
    NamedFences,
}
