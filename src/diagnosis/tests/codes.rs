//! Each code is produced and documented.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{Findings, MS, SECOND, text};
use crate::{
    diagnosis::Severity::{self, Hint, Problem},
    error::{Reason, UnfitServer, prospect},
    lock::{Owed, OwedKind},
    node::{Blocked, ClockOffset, CopyProgress, Finding, Memory, NodeState, Persistence},
};

/// A code, its severity, and a change to three healthy nodes that produces it.
type Case = (&'static str, Severity, fn(&mut Findings));

const CASES: &[Case] = &[
    ("auth", Problem, |found| found.down(0, Reason::Auth(text("WRONGPASS")))),
    ("no-credentials", Problem, |found| {
        found.down(0, Reason::Auth(text("the credentials callback failed: no identity")));
    }),
    ("busy", Problem, |found| found.refusing(0, Reason::Busy)),
    ("clock", Problem, |found| {
        found.health[0].findings.push(Finding::ServerClock { ahead_micros: -90_000_000 });
    }),
    ("clock", Problem, |found| clock_ahead(found, 61_000_000)),
    ("clock", Problem, |found| found.refusing(0, Reason::TokenAhead)),
    ("clock", Problem, |found| found.votes[0] = Some(Err(Reason::TokenAhead))),
    ("clock", Hint, |found| clock_ahead(found, 20_000_000)),
    ("clock-jumped", Problem, |found| found.refusing(0, Reason::ClockJumped { by_micros: 1 })),
    ("connecting", Problem, |found| found.health[0].state = NodeState::Connecting),
    ("copying", Hint, |found| {
        found.health[0].copying = Some(CopyProgress::new(7, 700, SECOND));
    }),
    ("denied", Hint, |found| found.health[0].denied = [text("publish")].into()),
    ("down", Problem, |found| found.down(0, Reason::NotConnected(text("connection refused")))),
    ("embedded", Hint, |found| found.terms.is_embedded = true),
    ("enrolment", Problem, |found| found.refusing(0, Reason::WrongTag { found: text("") })),
    ("error", Problem, |found| found.refusing(0, Reason::Server(text("ERR")))),
    ("even-nodes", Hint, |found| *found = Findings::healthy(4)),
    ("evicts", Problem, |found| {
        found.health[0].memory = Some(Memory::new(1 << 20, text("allkeys-lru"), 0));
    }),
    ("evicts", Problem, |found| found.refusing(0, Reason::Evicts { policy: text("lru") })),
    ("few-nodes", Hint, |found| *found = Findings::healthy(2)),
    ("few-nodes", Hint, |found| *found = Findings::healthy(1)),
    ("full", Problem, |found| found.refusing(0, Reason::OutOfMemory)),
    ("hung", Problem, |found| found.down(0, Reason::NotConnected(text("no greeting in 2 s")))),
    ("loading", Problem, |found| found.down(0, Reason::Loading)),
    ("max-ttl", Hint, |found| found.health[0].max_ttl = Some(11 * SECOND)),
    ("no-count", Hint, |found| found.keys = Err(Reason::NoPermission(text("scan")))),
    ("no-replicas", Problem, |found| found.refusing(0, Reason::NoReplicas)),
    ("owed-ends", Problem, |found| {
        let (kind, name) = (OwedKind::Record, text("once:order:7"));
        found.terms.owed = vec![Owed { kind, name, age: SECOND, is_protected: false }];
    }),
    ("not-located", Problem, |found| found.down(0, Reason::NotLocated(text("no such host")))),
    ("tls", Problem, |found| found.down(0, Reason::Tls(text("invalid certificate")))),
    ("no-persistence", Hint, |found| {
        found.health[0].persistence = Some(Persistence::new(false, Some(false)));
    }),
    ("other-layout", Problem, |found| {
        found.refusing(0, Reason::OtherLayout { found: text("a, b"), ours: text("a, c") });
    }),
    ("own-clock", Problem, |found| {
        for health in &mut found.health {
            health.findings.push(Finding::OwnClock { ahead_micros: 90_000_000 });
        }
    }),
    ("own-clock", Hint, |found| {
        for health in &mut found.health {
            health.clock = Some(ClockOffset::new(2_000_000, MS));
        }
    }),
    ("permission", Problem, |found| found.refusing(0, Reason::NoPermission(text("NOPERM")))),
    ("persistence-failing", Problem, |found| found.refusing(0, Reason::PersistenceFailing)),
    ("probation", Problem, |found| {
        found.health[0].state =
            NodeState::Probation { remaining: SECOND, since: SECOND, blocked: None };
    }),
    ("probation", Problem, |found| {
        found.votes[0] = Some(Err(Reason::Probation { remaining: Duration::ZERO }));
    }),
    ("probation-blocked", Problem, |found| {
        let blocked = Some(Blocked::new(text("node-1"), Reason::TimedOut));
        found.health[0].state = NodeState::Probation { remaining: SECOND, since: SECOND, blocked };
    }),
    ("protected-mode", Problem, |found| found.down(0, unfit(UnfitServer::ProtectedMode))),
    ("refused", Problem, |found| {
        found.refusing(0, Reason::Server(text("WRONGTYPE Operation against a key")));
    }),
    ("replica", Problem, |found| found.down(0, Reason::ReadOnly)),
    ("restart-guard", Hint, |found| found.terms.restart_guard = false),
    ("same-server", Problem, |found| {
        found.refusing(0, Reason::SameServer { other: text("node-1") });
    }),
    ("server-limits", Hint, |found| found.health[0].findings.push(Finding::NoRunId)),
    ("silent", Problem, |found| found.votes[0] = Some(Err(Reason::TimedOut))),
    ("slow", Problem, |found| found.votes[0] = Some(Ok(50 * MS))),
    ("ttl-too-long", Problem, |found| found.refusing(0, Reason::TtlTooLong)),
    ("unfit-server", Problem, |found| found.down(0, unfit(UnfitServer::Sentinel))),
    ("unfit-server", Problem, |found| found.down(0, unfit(UnfitServer::Cluster))),
    ("unfit-server", Problem, |found| {
        found.down(0, unfit(UnfitServer::NoScripts { error: text("ERR") }));
    }),
    ("unfit-server", Problem, |found| {
        found.down(0, unfit(UnfitServer::NoIdentity { missing: text("run_id") }));
    }),
    ("unfit-server", Problem, |found| {
        found.down(0, unfit(UnfitServer::NoDatabase { error: text("ERR") }));
    }),
    ("unstable", Problem, |found| {
        let reason = Reason::Disconnected;
        found.health[0].findings.push(Finding::UnstableConnection { broken: 3, reason });
    }),
    ("unstable-wake-ups", Hint, |found| {
        let reason = Reason::Disconnected;
        found.health[0].findings.push(Finding::UnstableWakeUps { broken: 3, reason });
    }),
    ("version", Problem, |found| {
        found.down(0, unfit(UnfitServer::TooOld { version: text("6.0") }));
    }),
];

fn unfit(unfit: UnfitServer) -> Reason {
    Reason::Unfit(unfit)
}

fn clock_ahead(found: &mut Findings, ahead_micros: i64) {
    found.health[0].clock = Some(ClockOffset::new(ahead_micros, MS));
}

/// Codes with their severities.
type Codes<'a> = BTreeMap<&'a str, BTreeSet<&'static str>>;

fn severity_of(severity: Severity) -> &'static str {
    if severity == Problem { "problem" } else { "hint" }
}

#[test]
fn healthy_nodes_need_no_advice() {
    assert_eq!(Findings::healthy(3).diagnosis().advice, []);
    assert_eq!(Findings::healthy(5).diagnosis().advice, []);
}

#[test]
fn each_code_is_produced() {
    for (number, (code, severity, change)) in CASES.iter().enumerate() {
        let mut found = Findings::healthy(3);
        change(&mut found);
        let advice = found.diagnosis().advice;
        let is_expected = advice.iter().any(|one| (one.code, one.severity) == (code, *severity));
        assert!(is_expected, "case {number}, {code}: {advice:#?}");
        let is_silent = |text: &String| text.is_empty();
        assert!(!advice.iter().any(|one| is_silent(&one.what) || is_silent(&one.todo)), "{code}");
    }
}

#[test]
fn documented_codes_are_produced() {
    let mut produced = Codes::new();
    for (code, severity, _) in CASES {
        produced.entry(code).or_default().insert(severity_of(*severity));
    }
    assert_eq!(documented(), produced);
}

#[test]
fn documented_codes_are_in_code() {
    let advice = [include_str!("../node_advice.rs"), include_str!("../set_advice.rs")];
    let prospects = include_str!("../../error/prospect.rs").split("pub(crate) fn prospect(").nth(1);
    let mut found = Codes::new();

    for file in advice.into_iter().chain(prospects) {
        let calls = [
            ("Advice::problem(", "problem"),
            ("Advice::hint(", "hint"),
            (" heals(", "problem"),
            ("..heals(", "problem"),
            (" lasts(", "problem"),
        ];
        for (call, severity) in calls {
            for rest in file.split(call).skip(1) {
                let Some(literal) = rest.trim_start().strip_prefix('"') else { continue };
                let code = literal.split('"').next().expect("a first part");
                found.entry(code).or_default().insert(severity);
            }
        }
    }

    assert_eq!(documented(), found);
}

/// The table states for each reason of the cases whether waiting helps.
#[test]
fn table_says_where_waiting_helps() {
    let rows = include_str!("../mod.rs").lines().filter_map(|line| line.strip_prefix("//! | `"));
    let cells: BTreeMap<_, _> = rows
        .map(|row| {
            let cells: Vec<_> = row.trim_end_matches(" |").split(" | ").collect();
            (cells[0].trim_end_matches('`'), *cells.last().expect("a last cell"))
        })
        .collect();
    let mut of_reasons = BTreeSet::new();
    for (_, _, change) in CASES {
        let mut found = Findings::healthy(3);
        change(&mut found);
        let states = found.health.iter().map(|node| &node.state);
        let reasons = states.filter_map(|state| match state {
            NodeState::Down { reason, .. } | NodeState::Refusing { reason, .. } => Some(reason),
            _ => None,
        });
        for reason in reasons {
            let prospect = prospect(reason, "p");
            let expected = match (prospect.lasts_after, reason) {
                (None, _) => "yes".into(),
                (Some(_), Reason::OtherLayout { .. }) => {
                    "no, once its set would have been taken over".into()
                }
                (Some(after), _) => format!("no, after {} s", after.as_secs()),
            };
            assert_eq!(cells[prospect.code], expected, "{reason}");
            of_reasons.insert(prospect.code);
        }
    }

    let others = cells.iter().filter(|(code, _)| !of_reasons.contains(**code));

    for (code, cell) in others {
        assert!(["–", "yes"].contains(cell), "{code}: {cell}");
    }
}

/// The table of the module's docs.
fn documented() -> Codes<'static> {
    let rows = include_str!("../mod.rs").lines().filter_map(|line| line.strip_prefix("//! | `"));
    let row = |row: &'static str| {
        let mut cells = row.split(" | ");
        let code = cells.next().expect("a code").trim_end_matches('`');
        let severities = cells.next().expect("severities").split(", ");
        (code, severities.collect())
    };
    rows.map(row).collect()
}

#[test]
fn unknown_reasons_give_error() {
    let reasons = [
        Reason::Stale,
        Reason::Overloaded,
        Reason::NamesDiffer,
        Reason::Displaced,
        Reason::MaxTtlRaised { to: SECOND },
        Reason::Unsettled,
        Reason::Late,
        Reason::KeyGone,
        Reason::FenceAhead,
        Reason::Superseded,
        Reason::Incomplete,
        Reason::TooManyJobs,
        Reason::Server(text("ERR unknown")),
        Reason::Protocol("not what was asked for".into()),
    ];
    for reason in reasons {
        let mut found = Findings::healthy(3);
        found.refusing(1, reason.clone());
        let advice = found.diagnosis().advice;
        let [one] = &advice[..] else { panic!("{reason}: {advice:#?}") };
        assert_eq!((one.code, one.severity), ("error", Problem), "{reason}");
        assert_eq!((one.node.as_deref(), &one.what), (Some("node-1"), &reason.to_string()));
    }
}

#[test]
fn unanswered_votes_are_silent() {
    for reason in [Reason::TimedOut, Reason::Unknown, Reason::Disconnected, Reason::NotAwaited] {
        let mut found = Findings::healthy(3);
        found.votes[2] = Some(Err(reason.clone()));
        let advice = found.diagnosis().advice;
        let [one] = &advice[..] else { panic!("{reason}: {advice:#?}") };
        assert_eq!((one.code, one.node.as_deref()), ("silent", Some("node-2")), "{reason}");
    }
}
