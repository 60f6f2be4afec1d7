//! Sessions with a server that is scripted by the tests.

use std::{sync::Arc, time::Duration};

use ::redis::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::{Instant, timeout},
};

use super::{NodeChannels, Session, SessionEnd};
use crate::{
    error::Reason,
    membership::offsets::Offsets,
    node::{
        Reply,
        redis::{
            Address, AuthToken, Credentials,
            connection_login::ConnectionLogin,
            directory::Location,
            enrol::{AdminRequest, Scripted},
            handshake::ReadyConnection,
            reconnect_state::ReconnectState,
            request::NodeRequest,
            scripts::{self, Digests},
            server_clock::ServerClock,
            values::digest,
            wire::Wire,
        },
    },
    protocol::{AcquireOp, Answer, GrantedAnswer, LeaseId, Nonce, Op, ReleasedAnswer},
    resource::Resource,
    stripe::STRIPES,
    time::Timestamp,
};

/// Answers to a health check of a server that can't be enrolled: an error for each command.
const FULL: &str = "-OOM\r\n-OOM\r\n-OOM\r\n-OOM\r\n-OOM\r\n-OOM\r\n-OOM\r\n-OOM\r\n";
const RELEASED: Result<Answer, Reason> =
    Ok(Answer::Released(ReleasedAnswer { existed: true, awaited: false }));
/// Time in which a session does all that it does without another event.
const SETTLED: Duration = Duration::from_millis(10);

/// A session, and the other ends of its channels and of its connection.
struct SessionFixture {
    set: Scripted,
    requests: mpsc::UnboundedSender<NodeRequest>,
    admin: mpsc::UnboundedSender<AdminRequest>,
    server: DuplexStream,
    session: JoinHandle<SessionEnd>,
}

impl SessionFixture {
    fn new() -> Self {
        Self::with(ConnectionLogin::new(&"a".into(), None, None))
    }

    /// Starts a session with a login that expires after `term` and is not renewed.
    async fn expiring(term: Duration) -> Self {
        let source = Credentials::callback(move || async move {
            Ok(AuthToken::new("app", "s3cret").valid_for(term))
        });
        let current = source.resolve().await.unwrap();
        let failing = Credentials::callback(|| async { Err("no token".into()) });
        Self::with(ConnectionLogin::new(&"a".into(), Some(failing), Some(current)))
    }

    fn with(login: ConnectionLogin) -> Self {
        let set = Scripted::new("p");
        let (ours, server) = tokio::io::duplex(1 << 16);
        let (requests, received) = mpsc::unbounded_channel();
        let (admin, administered) = mpsc::unbounded_channel();
        let mut digests = Digests::default();
        for script in scripts::OF_LOCKS {
            digests.learn(script, digest(Value::BulkString(vec![b'0'; 40])).ok());
        }
        let address = Address::Tcp { host: "a".into(), port: 1 };
        let link = ReadyConnection {
            wire: Wire::new(Box::new(ours)),
            location: Location { address, epoch: 0, is_fresh: false },
            digests: Arc::new(digests),
            socket: None,
            server_clock: ServerClock::new(Timestamp::ZERO, 1_000_000, 0.01),
            login,
        };
        let (member, endpoint, status) = set.node(0);
        let session = tokio::spawn(async move {
            let offsets = Offsets::new(Duration::from_secs(10), 0.01);
            let mut reconnect = ReconnectState::new(offsets);
            let direct = Arc::default();
            let session = Session::new(link, &endpoint, &member, &status, &mut reconnect, &direct);
            let mut channels = NodeChannels { requests: received, admin: administered, direct };
            session.serve(&mut channels).await
        });
        Self { set, requests, admin, server, session }
    }

    /// Sends an operation to the session; returns the receiver of its result.
    fn send(&self, op: Op) -> oneshot::Receiver<Result<Answer, Reason>> {
        let (answer, answered) = oneshot::channel();
        let reply = Reply::from_fn(move |result| {
            let _ = answer.send(result);
        });
        self.requests.send(NodeRequest::new(op, reply, &Arc::default())).unwrap();
        answered
    }

    /// Returns what the server receives until the session waits.
    async fn receive(&mut self) -> String {
        let (mut text, mut buffer) = (String::new(), [0; 4096]);
        while let Ok(read) = timeout(SETTLED, self.server.read(&mut buffer)).await {
            let read = read.unwrap();
            if read == 0 {
                break;
            }
            text.push_str(&String::from_utf8_lossy(&buffer[..read]));
        }
        text
    }

    async fn answer(&mut self, text: &str) {
        self.server.write_all(text.as_bytes()).await.unwrap();
    }

    /// Ends the greeting of a server that has no vote.
    async fn greet(&mut self) {
        assert!(self.receive().await.contains("HMGET"), "the health check");
        self.answer(FULL).await;
    }

    async fn broken(self) -> Reason {
        match self.session.await.unwrap() {
            SessionEnd::Broken(reason) => reason,
            SessionEnd::Closed => panic!("it is closed"),
        }
    }
}

fn lease(n: u8) -> Arc<LeaseId> {
    let resource = Resource::try_from("x").unwrap();
    Arc::new(LeaseId::new(resource, Nonce::from_bytes([n; 16]), "me".into(), Duration::ZERO))
}

/// Answers to a health check of a server that votes, under this tag.
fn voting(tag: &str) -> String {
    let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
    let record = [tag, "10000", "0", "", "", "1000000", "3", "", "", ""].map(bulk).concat();
    let (run, history) = ("a".repeat(40), "b".repeat(40));
    let server = bulk(&format!("run_id:{run}"));
    let replication = bulk(&format!("role:master\r\nmaster_replid:{history}"));
    let time = format!("*2\r\n{}{}", bulk("1"), bulk("0"));
    let record = format!("*12\r\n{record}$-1\r\n$-1\r\n");
    let (fences, empty) = (format!(":{STRIPES}\r\n"), bulk(""));
    [record, fences, time, server, replication, empty.clone(), empty, "*0\r\n".into()].concat()
}

#[tokio::test(start_paused = true)]
async fn greeting_accepts_no_operation() {
    let mut scene = SessionFixture::new();
    let released = scene.send(Op::Release(lease(7)));
    let (run, _run) = oneshot::channel();
    let ping = ::redis::cmd("PING");
    let mut pipeline = ::redis::Pipeline::with_capacity(1);
    pipeline.add_command(ping);
    scene.admin.send(AdminRequest::Run(pipeline, run)).unwrap();

    let check = scene.receive().await;
    assert!(check.contains("HMGET"), "{check}");
    assert!(!check.contains("EVALSHA") && !check.contains("PING"), "{check}");

    scene.answer(FULL).await;
    let operations = scene.receive().await;
    assert!(operations.contains("EVALSHA") && operations.contains("PING"), "{operations}");

    scene.answer(":1\r\n+PONG\r\n").await;
    assert_eq!(released.await, Ok(RELEASED));
}

#[tokio::test(start_paused = true)]
async fn silent_greeting_has_its_own_reason() {
    let scene = SessionFixture::new();
    let begun = Instant::now();

    let reason = scene.broken().await;

    assert!(matches!(&reason, Reason::NotConnected(text) if text.contains("greeting")), "{reason}");
    assert_eq!(begun.elapsed().as_millis() / 100, 5, "ten node timeouts");
}

/// A server whose first check is answered afterwards would be reported as up, and as down at once.
#[tokio::test(start_paused = true)]
async fn login_that_expires_in_greeting_ends_the_session() {
    let mut scene = SessionFixture::expiring(Duration::from_millis(100)).await;
    let released = scene.send(Op::Release(lease(7)));
    let begun = Instant::now();
    assert!(scene.receive().await.contains("HMGET"));

    let reason = scene.broken().await;

    assert!(matches!(&reason, Reason::Auth(text) if text.contains("expired")), "{reason}");
    assert_eq!(begun.elapsed().as_millis() / 10, 10, "at the end of the login");
    assert!(released.await.is_ok_and(|result| result.is_err()), "it was not accepted");
}

#[tokio::test(start_paused = true)]
async fn leaving_waits_for_answers_and_accepts_nothing() {
    let mut scene = SessionFixture::expiring(Duration::from_millis(100)).await;
    scene.greet().await;
    let released = scene.send(Op::Release(lease(7)));
    assert!(scene.receive().await.contains("EVALSHA"));

    tokio::time::sleep(Duration::from_millis(100)).await;
    let late = scene.send(Op::Release(lease(8)));
    assert_eq!(scene.receive().await, "");
    assert!(!scene.session.is_finished(), "an operation is not answered yet");

    scene.answer(":1\r\n").await;
    assert_eq!(released.await, Ok(RELEASED));
    assert_eq!(scene.receive().await, "");
    assert!(matches!(scene.broken().await, Reason::Auth(_)));
    assert!(late.await.is_ok_and(|result| result.is_err()), "it was not accepted");
}

#[tokio::test(start_paused = true)]
async fn dropped_node_is_served_to_the_last_answer() {
    let mut scene = SessionFixture::new();
    scene.greet().await;
    let released = scene.send(Op::Release(lease(7)));
    assert!(scene.receive().await.contains("EVALSHA"));

    drop(std::mem::replace(&mut scene.requests, mpsc::unbounded_channel().0));
    scene.admin.send(AdminRequest::Check).unwrap();
    assert!(scene.receive().await.contains("HMGET"), "it is still checked");

    scene.answer(":1\r\n").await;
    assert_eq!(released.await, Ok(RELEASED));
    assert!(!scene.session.is_finished(), "a check is not answered yet");

    scene.answer(FULL).await;
    assert!(matches!(scene.session.await.unwrap(), SessionEnd::Closed));
}

/// A session of a server that votes.
async fn voting_session() -> SessionFixture {
    let mut scene = SessionFixture::new();
    let layout = &scene.set.set.layout.hash;
    let run = format!("{}{}", "a".repeat(16), "b".repeat(16));
    let tag = format!("a {run} {layout} {:016x} 00000001 {:016x}-10000", 7, 7);
    // The record is read again, with the fences of its tag.
    for _ in 0..2 {
        assert!(scene.receive().await.contains("HMGET"));
        scene.answer(&voting(&tag)).await;
    }
    scene
}

fn acquire(lease: &Arc<LeaseId>, block_end: u64) -> Op {
    Op::Acquire(AcquireOp {
        lease: Arc::clone(lease),
        ttl: Duration::from_secs(1),
        token: 1,
        block_end,
        expires: Timestamp::MAX,
        waiter: None,
    })
}

const TIME: &str = "*2\r\n$1\r\n1\r\n$1\r\n0\r\n";
const GRANTED: Result<Answer, Reason> =
    Ok(Answer::Granted(GrantedAnswer { accepted: true, fence: 0 }));

#[tokio::test(start_paused = true)]
async fn votes_name_the_tag_of_the_first_check() {
    let mut scene = voting_session().await;

    let mut acquired = scene.send(acquire(&lease(7), 2));

    let sent = scene.receive().await;
    assert!(acquired.try_recv().is_err(), "it waits for its answer");
    assert!(sent.contains("EVALSHA"), "{sent}");
    assert!(sent.contains(&format!("p:fences:{:016x}-10000", 7)), "{sent}");
}

/// A session of a server that votes and runs scripts.
async fn serving_session() -> SessionFixture {
    let mut scene = voting_session().await;
    let acquired = scene.send(acquire(&lease(1), 1));
    let sent = scene.receive().await;
    assert!(sent.contains("EVALSHA") && !sent.contains("ZADD"), "the first is a script: {sent}");
    scene.answer(&[":1\r\n", TIME].concat()).await;
    assert_eq!(acquired.await, Ok(GRANTED));
    scene
}

#[tokio::test(start_paused = true)]
async fn single_token_is_acquired_by_plain_commands() {
    let mut scene = serving_session().await;

    let acquired = scene.send(acquire(&lease(7), 1));

    let sent = scene.receive().await;
    let at = |part: &str| sent.find(part).unwrap_or_else(|| panic!("no {part}: {sent}"));
    assert!(at("SET") < at("ZADD") && at("ZADD") < at("TIME"), "{sent}");
    assert!(!sent.contains("EVAL"), "{sent}");
    scene.answer(&["+OK\r\n:1\r\n", TIME].concat()).await;
    assert_eq!(acquired.await, Ok(GRANTED));
}

/// Only `OK` and 1 are a grant.
#[tokio::test(start_paused = true)]
async fn other_answers_to_plain_commands_lead_to_the_script() {
    for (set, raised) in [
        ("$-1", ":1"),
        ("$-1", ":0"),
        ("+OK", ":0"),
        ("+OK", "-WRONGTYPE"),
        ("-OOM", ":1"),
        ("$2\r\nno", ":1"),
        ("+OK", ":2"),
    ] {
        let mut scene = serving_session().await;
        let mut acquired = scene.send(acquire(&lease(7), 1));
        assert!(scene.receive().await.contains("ZADD"));
        scene.answer(&format!("{set}\r\n{raised}\r\n{TIME}")).await;

        let again = scene.receive().await;

        assert!(acquired.try_recv().is_err(), "{set} {raised} is no answer");
        assert!(again.contains("EVALSHA") && again.contains("TIME"), "{again}");
        assert!(again.contains(&"07".repeat(16)), "the same nonce: {again}");
        scene.answer(&[":1\r\n", TIME].concat()).await;
        assert_eq!(acquired.await, Ok(GRANTED));
    }
}

/// The script of an ended lease could run after its release. A key that was stored may still be there.
#[tokio::test(start_paused = true)]
async fn ended_lease_is_not_sent_as_the_script() {
    for (set, reason) in [("+OK", Reason::Unknown), ("$-1", Reason::Stale)] {
        let mut scene = serving_session().await;
        let lease = lease(7);
        let acquired = scene.send(acquire(&lease, 1));
        assert!(scene.receive().await.contains("ZADD"));
        lease.end();
        let released = scene.send(Op::Release(lease));
        assert!(scene.receive().await.contains("EVALSHA"), "the release");

        scene.answer(&format!("{set}\r\n:0\r\n{TIME}:1\r\n")).await;

        assert_eq!(scene.receive().await, "");
        assert_eq!(acquired.await, Ok(Err(reason)));
        assert_eq!(released.await, Ok(RELEASED));
    }
}
