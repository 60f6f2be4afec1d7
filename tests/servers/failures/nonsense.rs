//! Servers that violate the protocol.

use std::sync::Mutex;

use tower_redlock::error::Reason;
use tower_redlock::node::{Nonce, Op};

use crate::fixture::{
    FakeServer, Reaction, RedisServer, all_vote, eventually_async, fake,
    faults::{
        assert_refused, down, lease_with, manager, only_a_majority_of_these_matters, settled,
    },
    jobs::ask,
};

/// Well-formed replies that no script gives.
fn misfits() -> Vec<Reaction> {
    // Several of these at once are below a connection's limit.
    let huge = Reaction::bulk(&"z".repeat(1 << 18));
    let int = Reaction::int;
    vec![
        Reaction::ok(),
        Reaction::null(),
        Reaction::bulk(""),
        Reaction::bulk("1"),
        huge.clone(),
        int(0),
        int(1),
        int(i64::MIN),
        Reaction::array(&[]),
        Reaction::array(&[Reaction::null(), Reaction::null()]),
        Reaction::array(&[int(0), int(0)]),
        Reaction::array(&[int(8), int(1)]),
        Reaction::array(&[int(9), int(1)]),
        Reaction::array(&[int(10), int(1)]),
        Reaction::array(&[int(-1), int(-1), int(-1)]),
        Reaction::array(&[int(i64::MAX), int(i64::MAX), int(i64::MAX)]),
        Reaction::array(&[Reaction::bulk("1"), Reaction::bulk("2")]),
        Reaction::array(&[Reaction::array(&[int(1)]), int(2)]),
        Reaction::array(&[huge.clone(), huge]),
        Reaction::Reply(b"*-1\r\n".to_vec()),
        Reaction::Reply(b"$3\r\n\xff\xfe\xfd\r\n".to_vec()),
    ]
}

#[tokio::test]
async fn wrong_answer_is_no_vote() {
    for reaction in misfits().into_iter().filter(is_no_grant) {
        assert_no_vote(move |_| reaction.clone()).await;
    }
}

#[tokio::test]
async fn wrong_lease_answer_is_no_vote() {
    let int = Reaction::int;
    // Codes of other scripts, or without their other items.
    let codes = [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 12, 13, 14, 15, 16];
    let codes = codes.map(|code| Reaction::array(&[int(code)]));
    let below_token = Reaction::array(&[int(2), int(0)]);
    let granted = b":1\r\n".to_vec();

    let misfits =
        misfits().into_iter().filter(|it| !matches!(it, Reaction::Reply(it) if *it == granted));

    for answer in misfits.chain(codes).chain([below_token, int(0), int(2), int(-1), int(i64::MAX)])
    {
        assert_no_vote(move |_| answer.clone()).await;
    }
}

fn is_no_grant(reaction: &Reaction) -> bool {
    !matches!(reaction, Reaction::Reply(bytes) if *bytes == b":1\r\n")
}

/// An acquire that such a server answers has no vote.
async fn assert_no_vote(answer: impl Fn(&[Vec<u8>]) -> Reaction + Send + Sync + 'static) {
    let server = fake::greeting(answer);
    let redlock = manager([server.url()]);
    settled(&redlock).await;
    let is_protocol = |reason: &Reason| {
        let shown = reason.to_string();
        assert!(shown.len() < 1000, "{} bytes of text", shown.len());
        matches!(reason, Reason::Protocol(_))
    };
    assert_refused(&redlock, &[0], is_protocol).await;
    // The same holds for the next one on the connection.
    assert_refused(&redlock, &[0], is_protocol).await;
    assert_eq!(server.connections(), 1);
}

/// Each command gets the answer to the previous one, as with a proxy that confuses them.
#[tokio::test]
async fn shifted_answers_end_the_connection() {
    let greeter = fake::Greeter::new();
    let last = Mutex::new(None);
    let server = FakeServer::start(move |command| {
        let answer = greeter.greet(command).unwrap_or_else(|| fake::granted(command));
        let is_shifted = command[0] == b"EVALSHA" || command[0] == b"TIME";
        let mut last = last.lock().unwrap();
        if let Some(before) = last.take().filter(|_| is_shifted) {
            *last = Some(answer);
            return before;
        }
        *last = (command[0] == b"EVALSHA" && command[2] != b"0").then(|| answer.clone());
        answer
    });
    let redlock = manager([server.url()]);
    all_vote(&redlock).await;
    let is_protocol = |reason: &Reason| matches!(reason, Reason::Protocol(_));
    assert_refused(&redlock, &[0], is_protocol).await;
    eventually_async("it connects again", async || server.connections() > 1).await;
}

#[tokio::test]
async fn bytes_no_protocol_break_connection() {
    for garbage in
        ["HTTP/1.1 400 Bad Request\r\n\r\n", "?\r\n", "$x\r\n", ":one\r\n", "*1\r\n!!\r\n"]
    {
        let server = || fake::greeting(|_| Reaction::Reply(garbage.into()));
        only_a_majority_of_these_matters(server, is_no_answer).await;
    }
}

#[tokio::test]
async fn endless_answer_blocks_no_other_server() {
    for begun in ["$9000000\r\n", "*2\r\n$9000000\r\n", "-ERR ", "+", ":1"] {
        let server = || fake::greeting(|_| Reaction::Endless(begun.into()));
        let is_no_answer =
            |reason: &Reason| matches!(reason, Reason::TimedOut) || is_no_answer(reason);
        only_a_majority_of_these_matters(server, is_no_answer).await;
    }
}

#[tokio::test]
async fn unsolicited_answer_breaks_connection() {
    let server = fake::greeting(|_| Reaction::Reply(b"$-1\r\n$-1\r\n".to_vec()));
    let redlock = manager([server.url()]);
    settled(&redlock).await;
    assert_refused(&redlock, &[0], |reason| matches!(reason, Reason::Protocol(_))).await;
    assert!(matches!(down(&redlock, 0).await, Reason::Protocol(_)));
}

#[tokio::test]
async fn truncated_answer_is_unknown() {
    for part in ["", "*", "*3\r\n:1\r\n", "*3\r\n:1\r\n:2\r\n$100\r\nabc", "-ERR half an err"] {
        let server = || fake::greeting(|_| Reaction::Truncated(part.into()));
        only_a_majority_of_these_matters(server, is_no_answer).await;
    }
}

/// Disconnected, or not connected again yet.
fn is_no_answer(reason: &Reason) -> bool {
    matches!(reason, Reason::Disconnected | Reason::NotConnected(_))
}

#[tokio::test]
async fn wrong_greeting_is_no_node() {
    for reaction in misfits() {
        let server = FakeServer::start(move |_| reaction.clone());
        let redlock = manager([server.url()]);
        settled(&redlock).await;
        assert_refused(&redlock, &[0], |reason| !matches!(reason, Reason::TimedOut)).await;
        assert!(!redlock.health()[0].is_voting());
        assert_eq!(server.count("EVALSHA"), 0);
    }
}

#[tokio::test]
async fn truncated_greeting_is_no_node() {
    for name in ["SCRIPT", "INFO", "HMGET", "EVAL"] {
        for reaction in [Reaction::Close, Reaction::Truncated("*2\r\n$".into())] {
            let greeter = fake::Greeter::new();
            let server = FakeServer::start(move |command| {
                if command[0] == name.as_bytes() {
                    return reaction.clone();
                }
                greeter.greet(command).unwrap_or_else(Reaction::ok)
            });
            let redlock = manager([server.url()]);
            settled(&redlock).await;
            assert_refused(&redlock, &[0], is_no_answer).await;
            assert!(!redlock.health()[0].is_voting());
        }
    }
}

#[tokio::test]
async fn a_greeting_without_end_is_cut() {
    for begun in ["$536870912\r\n", "*1048576\r\n$1000000\r\n", "$900000\r\n"] {
        let server = FakeServer::start(move |_| Reaction::Endless(begun.into()));
        let redlock = manager([server.url()]);
        let is_cut = |reason: &Reason| {
            let text = reason.to_string();
            text.contains("exceeds the memory limit") || text.contains("does not speak")
        };
        settled(&redlock).await;
        assert_refused(&redlock, &[0], is_cut).await;
    }
}

#[tokio::test]
async fn errors_of_servers_are_recognised_or_passed_on() {
    let place = "ERR Error running script (call to f_2fa2b029f72572e803ff55a09b1282699aecae6a): \
                 @user_script:22: @user_script: 22:";
    let denied = "ACL failure in script: User app has no permissions to access the 'redlock:a' key";
    let script = "script: 2fa2b029f72572e803ff55a09b1282699aecae6a, on @user_script:22.";
    let other = |text: &str| Reason::Server(text.into());
    for (error, expected) in [
        ("ERR unknown command 'EVALSHA'", other("ERR unknown command 'EVALSHA'")),
        (
            "CROSSSLOT Keys don't hash to the same slot",
            other("CROSSSLOT Keys don't hash to the same slot"),
        ),
        ("WHATEVER", other("WHATEVER")),
        ("NOREPLICAS Not enough good replicas to write.", Reason::NoReplicas),
        ("MOVED 3999 127.0.0.1:6381", Reason::Moved { to: "127.0.0.1:6381".into() }),
        // The form of errors inside scripts before Redis 7.
        (
            &*format!("{place} -OOM command not allowed when used memory > 'maxmemory'. "),
            Reason::OutOfMemory,
        ),
        (
            &*format!("{place} -READONLY You can't write against a read only replica. "),
            Reason::ReadOnly,
        ),
        (
            &*format!("{place} -MISCONF Redis is configured to save RDB snapshots "),
            Reason::PersistenceFailing,
        ),
        // The form of missing permissions since Redis 7.2.
        (&*format!("ERR {denied} {script}"), Reason::NoPermission(denied.into())),
    ] {
        let reply = Reaction::error(error);
        let server = fake::greeting(move |_| reply.clone());
        let redlock = manager([server.url()]);
        settled(&redlock).await;
        assert_refused(&redlock, &[0], |reason| match (reason, &expected) {
            (Reason::Server(text), Reason::Server(words))
            | (Reason::NoPermission(text), Reason::NoPermission(words)) => text.contains(&**words),
            _ => *reason == expected,
        })
        .await;
    }
}

#[tokio::test]
async fn repeated_nonce_is_hidden() {
    // The text of servers that lack the command: "unknown command 'EVALSHA', with args beginning
    // with".
    let lacking = RedisServer::with(&["--rename-command", "EVALSHA", ""]);
    assert_nonce_not_shown(lacking.url()).await;
    // A faulty proxy might send this.
    let echo = fake::greeting(|command| {
        let args: Vec<_> = command.iter().map(|arg| String::from_utf8_lossy(arg)).collect();
        Reaction::bulk(&args.join(" "))
    });
    assert_nonce_not_shown(echo.url()).await;
}

async fn assert_nonce_not_shown(url: String) {
    let nonce = Nonce::from_bytes([0xab; 16]);
    let redlock = manager([url]);
    settled(&redlock).await;
    let response = ask(&redlock.nodes()[0], Op::Release(lease_with(nonce))).await;
    let shown = format!("{response:?}");
    assert!(response.is_err() && !shown.contains("abababababab"), "{shown}");
}
