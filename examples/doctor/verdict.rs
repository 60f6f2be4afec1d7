//! The report: the state of the set, the findings and the verdict.

use std::{process::ExitCode, sync::Arc};

use tower_redlock::node::NodeState;

use crate::{
    examine::{Seen, quorum},
    findings::find,
    setup::Settings,
};

/// A finding for the operator.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    /// For scripts.
    pub(crate) code: &'static str,
    /// `None` for a finding about the whole set.
    pub(crate) node: Option<Arc<str>>,
    pub(crate) what: String,
    pub(crate) todo: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    /// Needs attention: the set is not healthy.
    Problem,
    /// For information.
    Hint,
}

impl Severity {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Problem => "problem",
            Self::Hint => "hint",
        }
    }
}

/// The state of the set, its findings and the verdict.
pub(crate) struct Report {
    pub(crate) settings: Settings,
    pub(crate) seen: Vec<Seen>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) verdict: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Healthy,
    Degraded,
    NoQuorum,
}

impl Verdict {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Degraded => "degraded",
            Self::NoQuorum => "no quorum",
        }
    }

    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Healthy => 0,
            Self::Degraded => 1,
            Self::NoQuorum => 2,
        }
    }

    pub(crate) fn exit(self) -> ExitCode {
        self.code().into()
    }
}

impl Report {
    pub(crate) fn new(seen: Vec<Seen>, settings: &Settings) -> Self {
        let findings = find(&seen, settings);
        let voting = seen.iter().filter(|node| node.votes(settings)).count();
        let verdict = if voting < quorum(seen.len()) {
            Verdict::NoQuorum
        } else if findings.iter().any(|finding| finding.severity == Severity::Problem) {
            Verdict::Degraded
        } else {
            Verdict::Healthy
        };
        Self { settings: settings.clone(), seen, findings, verdict }
    }

    pub(crate) fn voting(&self) -> usize {
        self.seen.iter().filter(|node| node.votes(&self.settings)).count()
    }

    pub(crate) fn quorum(&self) -> usize {
        quorum(self.seen.len())
    }

    /// Returns the verdict in a sentence.
    pub(crate) fn summary(&self) -> String {
        let (voting, nodes, quorum) = (self.voting(), self.seen.len(), self.quorum());
        let vote = format!("{voting} of {nodes} nodes vote, {quorum} are needed");
        match self.verdict {
            Verdict::Healthy => format!("locks work; {vote}"),
            Verdict::Degraded => {
                let spare = match voting - quorum {
                    0 if voting < nodes => ", and no further one may fail".to_owned(),
                    _ => String::new(),
                };
                format!("locks work, but something needs attention; {vote}{spare}")
            }
            Verdict::NoQuorum => {
                let in_probation =
                    |node: &&Seen| matches!(node.health.state, NodeState::Probation { .. });
                let waiting = self.seen.iter().filter(in_probation).count();
                let hope = if voting + waiting >= quorum {
                    "; waiting is enough: the probations end by themselves while a client runs (doctor --wait)"
                } else {
                    ""
                };
                format!("no locks at present; {vote}{hope}")
            }
        }
    }
}
