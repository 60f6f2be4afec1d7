//! Optional features of servers. A test states the features that it needs, and reports that it was
//! not run if one is missing; `scripts/test-matrix` counts these lines.

use std::process::Command;
use std::sync::OnceLock;
use std::{env, fmt};

use super::program::program;

/// The variable that lists the missing features of the chosen server, such as `clock tls`. They are
/// not detected, as a defect of the tests would look the same.
const LACKING: &str = "REDLOCK_TEST_LACKING";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// A wall clock that libfaketime sets.
    Clock,
    Tls,
    /// Scripts that write while memory is short, since 7.0.
    ScriptFlags,
    /// A Cluster whose bus has a port of its choice, since 7.0.
    ClusterPort,
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Clock => "clock",
            Self::Tls => "tls",
            Self::ScriptFlags => "script flags (7.0)",
            Self::ClusterPort => "cluster-port (7.0)",
        })
    }
}

/// Whether the servers of this run lack one of the features.
pub fn is_lacking(feature: Feature) -> bool {
    match feature {
        Feature::ScriptFlags | Feature::ClusterPort => major_version() < 7,
        Feature::Clock | Feature::Tls => {
            let lacking = env::var(LACKING).unwrap_or_default();
            lacking.split_whitespace().any(|word| word == feature.to_string())
        }
    }
}

/// Returns whether the servers have all of these features. Otherwise prints that the test is not
/// run.
#[must_use]
pub fn has(features: &[Feature]) -> bool {
    let missing = features.iter().find(|&&feature| is_lacking(feature));
    if let Some(missing) = missing {
        println!("not run: the server lacks {missing}");
    }
    missing.is_none()
}

fn major_version() -> u32 {
    static FOUND: OnceLock<u32> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let program = program().unwrap_or_else(|missing| panic!("{missing}"));
        let said =
            Command::new(program).arg("--version").output().expect("the server is installed");
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let version = said.split_once("v=").and_then(|(_, rest)| rest.split('.').next());
        version.and_then(|major| major.parse().ok()).unwrap_or_else(|| panic!("{said:?}"))
    })
}
