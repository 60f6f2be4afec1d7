//! The diagnosis of the set, with the commands of this program in its advice, and the exit code.

use tower_redlock::{
    Redlock,
    diagnosis::{Diagnosis, Verdict},
};

/// Exit codes beside success; `--help` explains them.
pub(super) const DEGRADED: u8 = 1;
const NO_QUORUM: u8 = 2;

/// What this program adds to the advice with a code.
const COMMANDS: [(&str, &str); 4] = [
    ("embedded", "REDLOCK_NODES=redis://…,redis://…,redis://… or --config FILE"),
    ("max-ttl", "redlock lower-max-ttl"),
    ("other-layout", "redlock adopt --from WRONG-NODES, or redlock adopt --from OLD-NODES"),
    ("probation", "redlock doctor --wait"),
];

pub(crate) async fn diagnose(redlock: &Redlock, probe: bool) -> Diagnosis {
    let mut diagnosis = redlock.diagnosis().probe(probe).await;
    for advice in &mut diagnosis.advice {
        if let Some((_, command)) = COMMANDS.iter().find(|(code, _)| *code == advice.code) {
            advice.todo.push_str(": ");
            advice.todo.push_str(command);
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
