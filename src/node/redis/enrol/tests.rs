//! A set whose nodes are answered by the tests: the end of a probation, and the meaning of reports.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ::redis::{Arg, Pipeline, Value};
use tokio::sync::{mpsc, oneshot};

use super::{
    AdminRequest, Layout, Membership, NodeHandle, NodeReport, NodeSet, Tag, activate,
    set::SetAdmission,
};
use crate::{
    error::Reason,
    events::{Events, LockEventKind},
    hand_clock::HandClock,
    membership::node_status::{ActivationOutcome, ActivationPlan, ActivationStep},
    node::{
        ClockJumps,
        redis::{AccessOptions, Endpoint, Guards, RedisSettings, RestartGuard, status::Status},
    },
    stripe::STRIPES,
    time::{AdjustedClock, Clock, Timers},
};

/// A set whose nodes give the answers of the test.
pub(in crate::node::redis) struct Scripted {
    pub(in crate::node::redis) set: Arc<NodeSet>,
    pub(super) nodes: Vec<ScriptedNode>,
    pub(super) clock: HandClock,
}

pub(super) struct ScriptedNode(mpsc::UnboundedReceiver<AdminRequest>);

/// A command, as text.
pub(super) type Sent = Vec<String>;

impl Scripted {
    /// Creates a set of three nodes with this prefix.
    pub(in crate::node::redis) fn new(prefix: &str) -> Self {
        Self::beside(0, prefix, RestartGuard::Probation)
    }

    pub(super) fn with(prefix: &str, restart: RestartGuard) -> Self {
        Self::beside(0, prefix, restart)
    }

    /// Creates the same set, of a manager that has other nodes before these.
    pub(super) fn beside(others: usize, prefix: &str, restart: RestartGuard) -> Self {
        let clock = HandClock::new();
        let adjusted = Arc::new(AdjustedClock::new(Arc::new(clock.clone())));
        let of_all = Arc::clone(&adjusted) as Arc<dyn Clock>;
        let settings = RedisSettings {
            prefix: prefix.into(),
            guards: Guards { restart, ..Guards::default() },
            max_ttl: Duration::from_secs(10),
            drift_factor: 0.01,
            node_timeout: Duration::from_millis(50),
            access: AccessOptions::default().check(&[]).unwrap(),
            clock: Arc::clone(&of_all),
            events: Arc::new(Events::default()),
        };
        let endpoints =
            ["a", "b", "c"].map(|host| Endpoint::parse(1, &format!("redis://{host}:1")).unwrap());
        let names = endpoints.each_ref().map(|endpoint| Arc::clone(&endpoint.name));
        let layout = Layout::new(&names, prefix, restart);
        let timers = Arc::new(Timers::new(Arc::clone(&of_all)));
        let jumps = Arc::new(ClockJumps::new(others + names.len(), timers));
        let events = Arc::clone(&settings.events);
        let set = NodeSet::new(layout, settings, adjusted, jumps, others, names.len());
        let mut nodes = Vec::new();
        let members = endpoints.map(|endpoint| {
            let (sender, requests) = mpsc::unbounded_channel();
            nodes.push(ScriptedNode(requests));
            let name = Arc::clone(&endpoint.name);
            let status = Status::new(name, Arc::clone(&of_all), Arc::clone(&events));
            NodeHandle { status: Arc::new(status), admin: sender, endpoint }
        });
        set.join(members);
        Self { set, nodes, clock }
    }

    /// Returns the place of a node in the set, its endpoint and its status.
    pub(in crate::node::redis) fn node(&self, index: usize) -> (Membership, Endpoint, Arc<Status>) {
        let NodeHandle { status, endpoint, .. } = &self.set.members()[index];
        let member = Membership { set: Arc::clone(&self.set), index };
        (member, endpoint.clone(), Arc::clone(status))
    }
}

impl ScriptedNode {
    /// Returns the next request, and the sender for its answer.
    async fn next_pipeline(&mut self) -> (Pipeline, oneshot::Sender<Result<Vec<Value>, Reason>>) {
        loop {
            match self.0.recv().await.expect("the set is there") {
                AdminRequest::Run(pipeline, answer) => return (pipeline, answer),
                AdminRequest::Check => {}
            }
        }
    }

    /// Returns the next command, without the script's text, and the sender for its answer.
    pub(super) async fn next(&mut self) -> (Sent, oneshot::Sender<Result<Vec<Value>, Reason>>) {
        let (pipeline, answer) = self.next_pipeline().await;
        (sent(&pipeline), answer)
    }

    /// Answers the next command with a list, and returns the command.
    pub(super) async fn answer(&mut self, list: Vec<Value>) -> Sent {
        let (sent, answer) = self.next().await;
        let _ = answer.send(Ok(vec![Value::Array(list)]));
        sent
    }

    /// Answers that the node is not connected.
    pub(super) async fn fail(&mut self) {
        let (_, answer) = self.next().await;
        let _ = answer.send(Err(Reason::Disconnected));
    }
}

fn sent(pipeline: &Pipeline) -> Sent {
    let mut args = args(pipeline.cmd_iter().next().expect("a command"));
    if args[0] == "EVAL" {
        args.drain(..2);
    }
    args
}

fn args(command: &::redis::Cmd) -> Sent {
    let shown = |arg| match arg {
        Arg::Simple(text) => String::from_utf8_lossy(text).into_owned(),
        other => panic!("{other:?}"),
    };
    command.args_iter().map(shown).collect()
}

pub(super) fn text(text: &str) -> Value {
    Value::BulkString(text.into())
}

/// A server that stores a record, and answers commands about its membership.
#[derive(Clone, Debug, Default)]
pub(super) struct FakeServer {
    pub(super) fields: BTreeMap<String, String>,
    /// The fences by stripe.
    pub(super) fences: BTreeMap<usize, u64>,
    pub(super) run: u128,
    pub(super) clock: Duration,
    pub(super) is_down: bool,
    /// Number of changes that were made.
    pub(super) changes: usize,
    /// Whether a lease on a task was released.
    pub(super) is_given_back: bool,
}

impl FakeServer {
    pub(super) fn new(run: u128, fields: &[(&str, &str)]) -> Self {
        let own = |(field, value): &(&str, &str)| ((*field).to_owned(), (*value).to_owned());
        let fields = fields.iter().map(own).collect();
        Self { fields, run, clock: Duration::from_secs(1_000), ..Self::default() }
    }

    pub(super) fn down() -> Self {
        Self { is_down: true, ..Self::default() }
    }

    pub(super) fn field(&self, field: &str) -> &str {
        self.fields.get(field).map_or("", |value| value)
    }

    /// Answers all requests to a node.
    pub(super) async fn serve(&mut self, node: &mut ScriptedNode) {
        loop {
            let (pipeline, answer) = node.next_pipeline().await;
            let answers = pipeline.cmd_iter().map(|command| self.run(&args(command))).collect();
            let _ = answer.send(if self.is_down { Err(Reason::Disconnected) } else { Ok(answers) });
        }
    }

    fn run(&mut self, args: &[String]) -> Value {
        let args: Vec<&str> = args.iter().map(|arg| &**arg).collect();
        let stored = |field: &str| self.fields.get(field).map_or(Value::Nil, |value| text(value));
        let id = format!("{:032x}", self.run);
        let whole = |digits: &str| format!("{digits}{}", "0".repeat(24));
        match &args[..] {
            ["HMGET", _, fields @ ..] => {
                Value::Array(fields.iter().map(|field| stored(field)).collect())
            }
            ["HGET", _, field] => stored(field),
            ["EVAL", _, "2", _, _] => {
                let fence = |stripe| self.fences.get(&stripe).copied().unwrap_or(0);
                let pairs =
                    (0..STRIPES).flat_map(|stripe| [stripe.to_string(), fence(stripe).to_string()]);
                let fences = pairs.map(|number| text(&number)).collect();
                Value::Array(vec![Value::Array(fences), stored("tag")])
            }
            ["ZCARD", _] => Value::Int(1_024),
            ["HGETALL", _] => {
                let pairs = self.fields.iter().flat_map(|pair| [text(pair.0), text(pair.1)]);
                Value::Array(pairs.collect())
            }
            ["HSCAN", ..] => Value::Array(vec![text("0"), Value::Array(Vec::new())]),
            ["TIME"] => {
                let part = |number: u64| text(&number.to_string());
                let micros = u64::from(self.clock.subsec_micros());
                Value::Array(vec![part(self.clock.as_secs()), part(micros)])
            }
            ["INFO", "server"] => text(&format!("run_id:{}", whole(&id[..16]))),
            ["INFO", "replication"] => {
                text(&format!("role:master\r\nmaster_replid:{}", whole(&id[16..])))
            }
            ["INFO" | "CONFIG", ..] => Value::Nil,
            ["EVAL", _, "1", _, "tag" | "once", _, _, _, time, ..] => {
                self.is_given_back |= *time == "0";
                Value::Array(vec![Value::Int(1)])
            }
            ["EVAL", _, "3", _, _, _, change @ ..] => Value::Int(i64::from(self.change(change))),
            other => panic!("{other:?}"),
        }
    }

    /// Does what `change.lua` does.
    fn change(&mut self, change: &[&str]) -> bool {
        let split = |args: &[&str]| -> usize { 1 + 2 * args[0].parse::<usize>().unwrap() };
        let (expected, rest) = change.split_at(split(change));
        let (fields, rest) = rest.split_at(split(rest));
        if expected[1..].chunks(2).any(|pair| self.field(pair[0]) != pair[1]) {
            return false;
        }
        self.changes += 1;
        for pair in fields[1..].chunks(2) {
            self.fields.insert(pair[0].to_owned(), pair[1].to_owned());
        }
        // Stripes that have no fence yet are omitted here.
        let least = rest[1].parse::<u64>().unwrap();
        self.fences.values_mut().for_each(|fence| *fence = least.max(*fence));
        for pair in rest[2..].chunks(2) {
            let stored = self.fences.entry(pair[0].parse().unwrap()).or_default();
            *stored = pair[1].parse::<u64>().unwrap().max(*stored);
        }
        true
    }
}

/// Runs `work` while the servers answer.
pub(super) async fn served<T>(
    nodes: &mut [ScriptedNode],
    servers: &mut [FakeServer],
    work: impl Future<Output = T>,
) -> T {
    let serving = nodes.iter_mut().zip(servers).map(|(node, server)| server.serve(node));
    tokio::select! {
        biased;
        done = work => done,
        _ = futures_util::future::join_all(serving) => unreachable!("they serve for ever"),
    }
}

/// Runs an activation of the first node. `votes` tells which of the other nodes vote. Returns the
/// outcome and the values that are stored. A node that votes stores a TTL of 20 s and a fence; the
/// first node stores `max_ttl`.
async fn activated(
    (waited, plan): (Duration, ActivationPlan),
    votes: [bool; 2],
    max_ttl: &str,
) -> (ActivationOutcome, FakeServer) {
    let Scripted { set, mut nodes, .. } = Scripted::new("p");
    let tag = |state, run| Arc::clone(report(&set, state, run, 1).tag.text());
    let begun = tag('p', 1);
    let mut servers = vec![FakeServer::new(1, &[("tag", &begun), ("max_ttl", max_ttl)])];
    servers[0].fences.insert(3, 5);
    for (number, votes) in votes.into_iter().enumerate() {
        let run = number as u128 + 2;
        servers.push(if votes {
            set.state().tags[number + 1] = Some(Tag::new(tag('a', run)));
            let server = FakeServer::new(run, &[("tag", &*tag('a', run)), ("max_ttl", "20000")]);
            FakeServer { fences: BTreeMap::from([(3, 4), (7, 70)]), ..server }
        } else {
            FakeServer::down()
        });
    }
    let step = ActivationStep { node: 0, tag: begun, waited, plan };
    let outcome = served(&mut nodes, &mut servers, activate::activate(&set, step)).await;
    (outcome, servers.swap_remove(0))
}

/// 20 s, and the drift.
const WHOLE: Duration = Duration::from_millis(20_000 + 200 + 2);

fn learn(needed: usize) -> ActivationPlan {
    ActivationPlan::Learn { from: vec![1, 2], needed }
}

#[tokio::test]
async fn probation_outlasts_longer_ttls() {
    let early = WHOLE.saturating_sub(Duration::from_nanos(1));
    let (outcome, server) = activated((early, learn(2)), [true; 2], "10000").await;

    assert_eq!(outcome, ActivationOutcome::Longer(Duration::from_secs(20)));
    assert!(server.changes == 0 && server.is_given_back, "{server:?}");

    let (outcome, server) = activated((WHOLE, learn(2)), [true; 2], "10000").await;
    assert_eq!(
        (outcome, server.changes, server.is_given_back),
        (ActivationOutcome::Done, 1, false)
    );
    assert!(server.field("tag").starts_with("a "));
    assert_eq!(["max_ttl", "floor"].map(|field| server.field(field)), ["20000", "0"]);
    assert_eq!(server.fences, BTreeMap::from([(3, 5), (7, 70)]));
    assert_eq!(server.field("once"), "copying 0000000000000007");

    // The node itself may store a longer limit.
    let (outcome, server) = activated((WHOLE, learn(2)), [true; 2], "30000").await;
    assert_eq!(outcome, ActivationOutcome::Longer(Duration::from_secs(30)));
    assert!(server.changes == 0 && server.is_given_back, "{server:?}");
}

#[tokio::test]
async fn enough_others_have_to_be_read() {
    let bootstrap = || ActivationPlan::Bootstrap { from: vec![1, 2] };
    for (plan, votes, ended) in [
        (learn(2), [true, false], false),
        (learn(1), [true, false], true),
        (learn(1), [false, false], false),
        // Each of the nodes that forgot together may have kept a value that the others lost.
        (bootstrap(), [true, false], false),
        (bootstrap(), [true, true], true),
    ] {
        let shown = format!("{plan:?} {votes:?}");
        let (outcome, server) = activated((WHOLE, plan), votes, "10000").await;
        let expected = if ended { ActivationOutcome::Done } else { ActivationOutcome::Failed };
        assert_eq!((outcome, server.changes), (expected, usize::from(ended)), "{shown}");
        assert_eq!(server.is_given_back, !ended, "{shown}");
    }
}

/// Every token that a node accepted is below this, as no token is further ahead of its clock.
#[tokio::test]
async fn bootstrap_starts_above_all_tokens() {
    let plan = ActivationPlan::Bootstrap { from: vec![1, 2] };
    let (outcome, server) = activated((WHOLE, plan), [true; 2], "10000").await;
    assert_eq!(outcome, ActivationOutcome::Done);
    assert_eq!(server.field("floor"), "1060000000");
    assert_eq!(server.fences[&3], 1_060_000_000);
    assert_eq!(server.field("once"), "copying bootstrapped 0000000000000007");
}

/// A report of a node of the set in this state. Its run also identifies its server.
pub(super) fn report(set: &NodeSet, state: char, run: u128, epoch: u32) -> NodeReport {
    let layout = &set.layout.hash;
    let tag = format!("{state} {run:032x} {layout} {:016x} {epoch:08x} {:016x}-10000", 7, 7);
    NodeReport {
        server_micros: 0,
        is_replica: false,
        run_id: format!("{run}").into(),
        run: format!("{run:032x}").into(),
        tag: Tag::new(tag),
        max_ttl: set.settings.max_ttl,
        previous_max_ttl: "".into(),
        floor: 0,
        lacks_fences: false,
        layout: "".into(),
        copying: false,
        owners: Vec::new(),
        seen: "".into(),
        size: 0,
        moved_from: ("".into(), 0),
        memory: None,
        persistence: None,
        persists: None,
    }
}

/// The same report of a node of another set.
fn elsewhere(set: &NodeSet, run: u128) -> NodeReport {
    let tag = report(set, 'a', run, 1).tag.text().replace(&*set.layout.hash, "fedcba9876543210");
    NodeReport { tag: Tag::new(tag), ..report(set, 'a', run, 1) }
}

impl Scripted {
    pub(super) fn see(&self, node: usize, report: &NodeReport, is_fresh: bool) -> SetAdmission {
        let now = self.clock.now();
        self.set.report(node, report, now, now, is_fresh)
    }

    pub(super) fn barred(&self) -> Vec<Option<Reason>> {
        self.set.members().iter().map(|member| member.status.barred()).collect()
    }
}

impl Scripted {
    /// Returns which nodes had a health check requested since the last call.
    pub(super) fn checked(&mut self) -> Vec<bool> {
        self.nodes.iter_mut().map(ScriptedNode::is_checked).collect()
    }
}

impl ScriptedNode {
    /// Returns whether a health check was requested since the last call.
    fn is_checked(&mut self) -> bool {
        let mut is_checked = false;
        while let Ok(request) = self.0.try_recv() {
            is_checked |= matches!(request, AdminRequest::Check);
        }
        is_checked
    }
}

#[test]
fn only_voting_nodes_raise_the_floor() {
    let scripted = Scripted::new("p");
    let with = |floor, report| NodeReport { floor, ..report };
    let set = &scripted.set;

    scripted.see(0, &with(7, report(set, 'a', 1, 1)), true);

    assert_eq!(set.floor(), 7);

    scripted.see(1, &with(8, report(set, 'p', 2, 1)), true);
    scripted.see(2, &with(9, elsewhere(set, 3)), true);
    scripted.see(0, &with(6, report(set, 'a', 1, 1)), true);
    assert_eq!(set.floor(), 7);
}

#[test]
fn foreign_nodes_are_not_enrolled() {
    let scripted = Scripted::new("p");
    let set = &scripted.set;

    let may_enrol = |node| set.terms(node, true).least_epoch.is_some();

    assert!(may_enrol(1));

    scripted.see(1, &elsewhere(set, 2), true);
    set.left(1);
    assert!(!may_enrol(1) && may_enrol(0));

    // A blank node may still belong to the set that adopted it.
    scripted.see(1, &NodeReport { tag: Tag::new(""), ..report(set, 'a', 2, 1) }, true);
    assert!(
        matches!(&scripted.barred()[1], Some(Reason::OtherLayout { found, .. }) if found.contains("adopt it"))
    );

    scripted.see(0, &NodeReport { tag: Tag::new(""), ..report(set, 'a', 1, 1) }, true);
    assert_eq!(scripted.barred()[0], Some(Reason::WrongTag { found: "".into() }));
}

#[test]
fn quorum_raises_shorter_limits() {
    let mut scripted = Scripted::new("p");
    let set = Arc::clone(&scripted.set);
    let short = |run| NodeReport { max_ttl: Duration::from_secs(9), ..report(&set, 'a', run, 1) };

    scripted.see(0, &short(1), true);

    assert!(!set.terms(0, true).may_raise);
    assert_eq!(scripted.barred()[0], Some(Reason::TtlTooLong));
    assert!(!scripted.nodes[0].is_checked(), "one node is no quorum");

    scripted.see(1, &report(&set, 'a', 2, 1), true);
    assert!(set.terms(0, true).may_raise);
    assert_eq!(scripted.barred()[1], None);
    assert!(!scripted.nodes[0].is_checked());

    scripted.see(2, &short(3), true);
    assert_eq!(scripted.checked(), [true, false, true], "those that refuse longer TTLs");
}

#[test]
fn server_named_twice_never_votes() {
    let mut scripted = Scripted::new("p");
    let set = Arc::clone(&scripted.set);
    let unknown = |run| NodeReport { run_id: "".into(), ..report(&set, 'a', run, 1) };
    scripted.see(0, &unknown(1), true);

    scripted.see(1, &unknown(1), true);

    assert_eq!(scripted.barred(), [const { None }; 3], "a server without a run id");

    for node in [0, 2] {
        scripted.see(node, &report(&set, 'a', 1, 1), true);
    }
    let same = |other: usize| {
        let other = Arc::clone(set.members()[other].status.name());
        Some(Reason::SameServer { other })
    };

    assert_eq!(scripted.barred(), [same(2), None, same(0)]);

    scripted.see(1, &unknown(1), true);
    assert!(set.state().enrolment.is_quorate(), "all but the last one");

    set.left(2);
    assert_eq!(scripted.barred(), [const { None }; 3]);
    assert_eq!(scripted.checked(), [true, false, false], "it is a server of its own again");
}

#[test]
fn probation_bars_until_its_end() {
    let scripted = Scripted::new("p");
    let set = &scripted.set;
    let mut events = set.settings.events.listen();

    let longer = NodeReport { previous_max_ttl: "20000 0".into(), ..report(set, 'p', 1, 1) };

    assert!(scripted.see(0, &longer, true).tag.is_none());

    scripted.clock.advance(Duration::from_secs(3));
    let remaining = WHOLE.saturating_sub(Duration::from_secs(3));
    assert_eq!(scripted.barred()[0], Some(Reason::Probation { remaining }));

    // A finished run, under a tag of that run.
    let over = NodeReport { run: "0".repeat(32).into(), ..report(set, 'a', 1, 1) };
    assert!(scripted.see(0, &over, true).tag.is_none());
    assert!(matches!(scripted.barred()[0], Some(Reason::WrongTag { .. })));

    let active = report(set, 'a', 1, 1);
    let SetAdmission { tag, view, .. } = scripted.see(0, &active, true);
    assert_eq!((tag.as_ref(), view.is_some()), (Some(&active.tag), true));

    let is_out: Vec<_> = std::iter::from_fn(|| events.try_recv().ok())
        .map(|event| matches!(event.kind, LockEventKind::NodeOut { .. }))
        .collect();
    assert_eq!(is_out, [true, true, false]);
    assert!(set.votes_with(0, &active.tag));
    assert!(!set.votes_with(0, &report(set, 'a', 1, 2).tag), "another tag");
    assert!(!set.votes_with(1, &active.tag), "another node");
    assert_eq!(scripted.barred()[0], None);
}

#[test]
fn unguarded_nodes_vote_at_once() {
    let scripted = Scripted::with("p", RestartGuard::Off);
    let set = &scripted.set;

    let terms = set.terms(0, true);

    assert!(terms.may_raise && terms.least_epoch.is_some());

    let tag = format!("a {} {}", "0".repeat(32), set.layout.hash);
    let blank =
        NodeReport { tag: Tag::new(tag), run: "0".repeat(32).into(), ..report(set, 'a', 0, 1) };
    let SetAdmission { tag, view, .. } = scripted.see(0, &blank, true);

    assert_eq!((tag, view.is_none()), (Some(blank.tag), true), "a vote without a view");
}
