//! Diagnosis: which nodes vote, why the others do not, and what to do.
//!
//! [`Redlock::diagnosis`](crate::Redlock::diagnosis) asks each node for a test vote, checks the
//! permissions of its user, counts its lock keys, and compares its [health](crate::node::NodeHealth) with the settings of the manager. It is meant
//! for people: a command, a page for operators, a test of a deployment. For probes of an orchestrator,
//! [`readiness`](crate::Redlock::readiness) sends nothing.
//!
//! ```
//! use tower_redlock::{Redlock, diagnosis::Verdict};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let redlock = Redlock::embedded();
//! let diagnosis = redlock.diagnosis().await;
//! for node in &diagnosis.nodes {
//!     println!("{}: {}", node.health.name, node.state());
//! }
//! for advice in &diagnosis.advice {
//!     println!("{advice}");
//! }
//! println!("{}: {}", diagnosis.verdict(), diagnosis.summary());
//! assert_eq!(diagnosis.verdict(), Verdict::Healthy);
//! # }
//! ```
//!
//! # Codes
//!
//! [`Advice::code`] is stable: scripts may compare it. The texts may change. New codes may be added.
//!
//! If waiting does not help, a wait for the set ends with an error once the other nodes are too few
//! for a quorum: [`Redlock::ready`](crate::Redlock::ready), and the command with the exit code 78
//! in place of 69.
//!
//! | code | severity | meaning | waiting helps |
//! |---|---|---|---|
//! | `auth` | problem | the server needs credentials, or refuses them | no, after 2 s |
//! | `busy` | problem | a script blocks the server | yes |
//! | `clock` | problem, hint | the clock of the server is off: by more than votes allow, or by less | yes |
//! | `clock-jumped` | problem | the clock of the server jumped | yes |
//! | `connecting` | problem | the first connection is being opened | – |
//! | `copying` | hint | records of work that is done are being copied to the node | – |
//! | `denied` | hint | the user of the server lacks permissions that locks do not need | – |
//! | `down` | problem | the server cannot be reached | yes |
//! | `embedded` | hint | all nodes are inside this process | – |
//! | `enrolment` | problem | the node has no enrolment, or a changed one | yes |
//! | `error` | problem | any other reason: its text has it | yes |
//! | `even-nodes` | hint | the number of nodes is even | – |
//! | `owed-ends` | problem | this process owes records of ended work, or ends of runs, to the nodes | – |
//! | `evicts` | problem | the server may evict locks | no, after 2 s |
//! | `few-nodes` | hint | fewer than three nodes | – |
//! | `full` | problem | the server is at `maxmemory` | yes |
//! | `hung` | problem | the server accepts connections, and does not answer | yes |
//! | `loading` | problem | the server is reading its data | yes |
//! | `max-ttl` | hint | the servers store a longer `max_ttl` than that of this manager | – |
//! | `no-count` | hint | the lock keys cannot be counted | – |
//! | `no-credentials` | problem | the application's callback for credentials fails | no, after 10 s |
//! | `no-persistence` | hint | servers keep nothing on disk | – |
//! | `no-replicas` | problem | the server refuses writes without its replicas | yes |
//! | `not-located` | problem | the host name has no address, or the Sentinels or the Cluster refuse to say where the server is | no, after 10 s |
//! | `other-layout` | problem | the node belongs to another set of nodes | no, once its set would have been taken over |
//! | `own-clock` | problem, hint | the clock of this process is off, or probably | – |
//! | `permission` | problem | the user of the server lacks a permission that locks need | no, after 2 s |
//! | `persistence-failing` | problem | the server refuses writes until it can persist | yes |
//! | `probation` | problem | the node may have forgotten locks, and waits until these have expired | yes |
//! | `probation-blocked` | problem | the probation of the node cannot be ended | – |
//! | `protected-mode` | problem | the server has no password, and refuses clients on other machines | no, after 2 s |
//! | `refused` | problem | the server refuses a command for a reason that lasts: its text has it | no, after 2 s |
//! | `replica` | problem | the server is a replica | yes |
//! | `restart-guard` | hint | the restart guard is off | – |
//! | `same-server` | problem | two nodes are one server | no, after 2 s |
//! | `server-limits` | hint | the server votes with limits, as it is of another kind | – |
//! | `silent` | problem | the node did not answer | yes |
//! | `slow` | problem | a vote takes longer than the node timeout | – |
//! | `tls` | problem | the certificate of the server is refused, or it does not speak TLS | no, after 10 s |
//! | `ttl-too-long` | problem | the TTL is above the `max_ttl` of the node | yes |
//! | `unfit-server` | problem | the kind or mode of the server cannot vote | no, after 2 s |
//! | `unstable` | problem | connections to the server break again and again, and it votes in between | – |
//! | `unstable-wake-ups` | hint | the same of the connections by which the server reports releases | – |
//! | `version` | problem | the server is too old | no, after 2 s |
//!
//! # Serialization
//!
//! With the feature `config`, a [`Diagnosis`] implements `Serialize`: with its verdict, summary, nodes and
//! advice; names in `snake_case`, durations as numbers with the unit in their names.

mod advice;
mod examine;
mod node_advice;
mod node_diagnosis;
mod reason_advice;
mod report;
mod request;
#[cfg(feature = "config")]
mod serialize;
mod set_advice;
mod terms;

#[cfg(test)]
mod tests;

pub use advice::{Advice, Severity};
pub use node_diagnosis::NodeDiagnosis;
pub use report::{Diagnosis, Verdict};
pub use request::{DiagnosisFuture, DiagnosisRequest};
