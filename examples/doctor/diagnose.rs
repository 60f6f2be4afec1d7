//! The diagnosis of the set, with the options of this program in its advice, and the exit code.

use tower_redlock::{
    Redlock,
    diagnosis::{Diagnosis, Verdict},
};

/// Exit codes beside success; `--help` explains them.
pub(crate) const DEGRADED: u8 = 1;
pub(crate) const NO_QUORUM: u8 = 2;

/// What this program adds to the advice with a code.
const OPTIONS: [(&str, &str); 4] = [
    ("embedded", "REDLOCK_NODES=redis://…,redis://…,redis://… or --config FILE"),
    ("max-ttl", "doctor --lower-max-ttl"),
    ("other-layout", "doctor --adopt --from WRONG-NODES, or --adopt --from OLD-NODES"),
    ("probation", "doctor --wait"),
];

pub(crate) async fn diagnose(redlock: &Redlock, probe: bool) -> Diagnosis {
    let mut diagnosis = redlock.diagnosis().probe(probe).await;
    for advice in &mut diagnosis.advice {
        if let Some((_, option)) = OPTIONS.iter().find(|(code, _)| *code == advice.code) {
            advice.todo.push_str(": ");
            advice.todo.push_str(option);
        }
    }
    diagnosis
}

pub(crate) fn exit_code(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Healthy => 0,
        Verdict::Degraded => DEGRADED,
        _ => NO_QUORUM,
    }
}
