//! Advice for the operator.

use std::{fmt, sync::Arc};

/// A finding that needs attention or is useful to know, and what to do. [`Display`](fmt::Display)
/// shows it on one line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Advice {
    /// Whether the finding needs attention.
    pub severity: Severity,
    /// The kind of finding, for scripts: one of the [codes](super#codes).
    pub code: &'static str,
    /// The name of the node; `None` for advice about the whole set.
    pub node: Option<Arc<str>>,
    /// What was found.
    pub what: String,
    /// What to do.
    pub todo: String,
}

/// Whether advice needs attention. [`Display`](fmt::Display) is `problem` or `hint`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "config", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Severity {
    /// The finding needs attention: the set is not healthy.
    Problem,
    /// The finding is information only.
    Hint,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Problem => "problem",
            Self::Hint => "hint",
        })
    }
}

impl Advice {
    pub(super) fn problem(code: &'static str, what: String, todo: impl Into<String>) -> Self {
        Self { severity: Severity::Problem, code, node: None, what, todo: todo.into() }
    }

    pub(super) fn hint(code: &'static str, what: String, todo: impl Into<String>) -> Self {
        Self { severity: Severity::Hint, ..Self::problem(code, what, todo) }
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.severity)?;
        if let Some(node) = &self.node {
            write!(f, "{node}: ")?;
        }
        write!(f, "{} (do: {})", self.what, self.todo)
    }
}
