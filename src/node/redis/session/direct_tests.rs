//! Tests of operations that their senders write.

use std::time::Duration;

use ::redis::Value;
use tokio::{
    io::AsyncReadExt,
    net::{TcpListener, TcpStream},
};

use super::*;
use crate::{
    error::Reason,
    node::{
        Reply,
        redis::{
            enrol::{Scripted, SetAdmission, Tag},
            scripts,
            values::digest,
        },
    },
    protocol::{LeaseId, Nonce},
    resource::Resource,
};

/// The writer of a connection, and the server's end of it.
struct DirectFixture {
    writer: DirectWriter,
    set: Arc<NodeSet>,
    socket: SharedSocket,
    server: TcpStream,
}

impl DirectFixture {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connecting = TcpStream::connect(listener.local_addr().unwrap());
        let (ours, accepted) = tokio::join!(connecting, listener.accept());
        let ours = ours.unwrap();
        ours.writable().await.unwrap();
        let set = Arc::clone(&Scripted::new("p").set);
        let (socket, server) = (SharedSocket::new(ours), accepted.unwrap().0);
        Self { writer: DirectWriter::default(), set, socket, server }
    }

    fn lend(&self) {
        let run = "0".repeat(32);
        let tag = format!("a {run} {:016x} {:016x} 00000001 {:016x}-10000", 1, 2, 3);
        let admission = SetAdmission { tag: Some(Tag::new(tag)), view: None, reconnect: false };
        let mut digests = Digests::default();
        for script in scripts::OF_LOCKS {
            digests.learn(script, digest(Value::BulkString(vec![b'0'; 40])).ok());
        }
        self.writer.lend(|context| {
            *context = Some(DirectContext {
                socket: self.socket.clone(),
                set: Arc::clone(&self.set),
                vote: VotingTag::of(admission, &self.set.keys).expect("a server that votes"),
                digests: Arc::new(digests),
                server_clock: ServerClock::new(Timestamp::ZERO, 1_000_000, 0.01),
                deletes: None,
                runs_scripts: true,
            });
        });
    }

    fn write(&self, op: Op, in_flight: usize) -> bool {
        let reply = Reply::from_fn(|_| {});
        let request = NodeRequest::new(op, reply, &Arc::default());
        self.writer.write(request, in_flight, || Timestamp::ZERO).is_ok()
    }

    async fn received(&mut self) -> String {
        let mut buffer = [0; 4096];
        let read = self.server.read(&mut buffer).await.unwrap();
        String::from_utf8_lossy(&buffer[..read]).into_owned()
    }
}

fn lease() -> Arc<LeaseId> {
    let resource = Resource::try_from("x").unwrap();
    Arc::new(LeaseId::new(resource, Nonce::from_bytes([7; 16]), "me".into(), Duration::ZERO))
}

fn acquire(token: u64) -> Op {
    let ttl = Duration::from_secs(1);
    Op::Acquire(AcquireOp::new(lease(), ttl, Timestamp::MAX).fencing(token, token))
}

fn awaited_release() -> Op {
    let lease = lease();
    lease.await_release();
    Op::Release(lease)
}

#[tokio::test]
async fn sender_writes_to_an_idle_connection() {
    let mut scene = DirectFixture::new().await;
    scene.lend();

    assert!(scene.write(acquire(1), 1));

    let sent = scene.received().await;
    assert!(sent.contains("SET") && sent.contains("ZADD") && sent.contains("TIME"), "{sent}");
    assert!(!scene.write(acquire(2), 1), "the answer is not read yet");
    let batch = scene.writer.take_written().expect("what was written");
    assert_eq!((batch.commands, batch.operations.requests.len()), (3, 1));
    assert!(batch.unwritten.is_empty());
    assert!(scene.writer.take_written().is_none(), "once");
    assert!(!scene.write(acquire(2), 1), "the task owns the connection");

    scene.lend();
    assert!(scene.write(awaited_release(), 1));
    assert!(scene.received().await.contains("EVALSHA"));
}

#[tokio::test]
async fn other_operations_are_left_to_the_task() {
    let scene = DirectFixture::new().await;
    assert!(!scene.write(acquire(1), 1), "nothing is lent");
    scene.lend();

    for (op, in_flight, why) in [
        (acquire(1), 2, "another operation is under way"),
        (acquire(u64::MAX), 1, "the token is too far ahead"),
        (Op::Release(lease()), 1, "nobody waits for the release"),
        (Op::Inspect([Arc::from("x")].into()), 1, "an inspection"),
        (Op::Acquire(AcquireOp::new(lease(), Duration::ZERO, Timestamp::ZERO)), 1, "it is late"),
    ] {
        assert!(!scene.write(op, in_flight), "{why}");
    }

    assert!(scene.writer.take_back().is_none(), "nothing was written");
    assert!(!scene.write(acquire(1), 1), "the task has taken the connection back");
}

#[tokio::test]
async fn closed_writer_returns_its_batch() {
    let scene = DirectFixture::new().await;
    scene.lend();
    let (answer, mut answered) = tokio::sync::oneshot::channel();
    let reply = Reply::from_fn(move |result| drop(answer.send(result)));
    let request = NodeRequest::new(acquire(1), reply, &Arc::default());
    assert!(scene.writer.write(request, 1, || Timestamp::ZERO).is_ok());

    drop(scene.writer.close());

    assert_eq!(answered.try_recv(), Ok(Err(Reason::Unknown)), "the answer is not known");
    assert!(!scene.write(acquire(1), 1));
    assert_eq!(scene.socket.clones(), 1, "the socket is closed with its task");
}
