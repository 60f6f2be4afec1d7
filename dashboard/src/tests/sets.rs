//! Several sets of servers, of which one may be down.

use std::sync::Arc;

use tower_redlock::{
    error::Reason,
    node::{Node, NodeHealth, NodeState, Op, Reply},
};

use super::*;

/// A node that votes, or is down.
#[derive(Debug)]
struct Switched {
    name: String,
    /// `None` if it is down.
    inner: Option<Arc<dyn Node>>,
}

fn refused() -> Reason {
    Reason::NotConnected("connection refused".into())
}

impl Node for Switched {
    fn send(&self, op: Op, reply: Reply) {
        match &self.inner {
            Some(node) => node.send(op, reply),
            None => reply.send(Err(refused())),
        }
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn health(&self) -> NodeHealth {
        let mut health = NodeHealth::voting(&self.name);
        if self.inner.is_none() {
            health.state = NodeState::Down { reason: refused(), since: Duration::from_secs(60) };
        }
        health
    }
}

/// A manager of two sets, of which the one with this number is down. Both have the same names of nodes.
fn with_down(number: usize) -> Redlock {
    let builder = |set: usize| {
        let inner = patient(&EmbeddedNodes::new(3)).build().unwrap().nodes().to_vec();
        let node = |(nth, inner)| Switched {
            name: format!("node-{nth}"),
            inner: Some(inner).filter(|_| set != number),
        };
        let (ttl, timeout) = (Duration::from_secs(60), Duration::from_secs(3));
        let builder = Redlock::builder().ttl(ttl).node_timeout(timeout);
        (1..).zip(inner).map(node).fold(builder, RedlockBuilder::node)
    };
    Redlock::sharded([1, 2].map(builder)).unwrap()
}

/// Returns names of a lock, a job and a key that the set with this number decides about.
fn names(redlock: &Redlock, number: usize) -> [String; 3] {
    ["{}", "job:{}", "once:{}"].map(|form| {
        let mut names = (0..).map(|nth| format!("name-{nth}"));
        names.find(|name| redlock.set_index(&form.replace("{}", name)) + 1 == number).unwrap()
    })
}

#[tokio::test]
async fn names_of_another_set_are_still_listed() {
    for (up, down) in [(1, 2), (2, 1)] {
        let redlock = with_down(down);
        let dashboard = over(&redlock, Access::All);
        let [lock, job, _] = names(&redlock, up);
        let _held = redlock.lock(lock.as_str()).await.unwrap();
        tick(&redlock, &job).await;

        let locks = page(&dashboard, "/locks").await;
        let jobs = page(&dashboard, "/jobs").await;

        assert!(locks.contains(&format!("data-lock=\"{lock}\"")), "{locks}");
        assert!(jobs.contains(&format!("data-job=\"{job}\"")), "{jobs}");
        for page in [locks, jobs] {
            let trouble = format!(
                "Something may be missing here: <bdi>too few votes count (set {down} of 2: "
            );
            assert!(page.contains(&trouble), "{page}");
        }
    }
}

#[tokio::test]
async fn actions_need_the_set_of_their_name_alone() {
    let redlock = with_down(2);
    let dashboard = over(&redlock, Access::All);
    page(&dashboard, "/nodes").await;

    let [_, job, key] = names(&redlock, 1);
    let reply = post(&dashboard, "/pause", &format!("name={job}")).await;
    assert_eq!(location(&reply), format!("job?name={job}&done=pause"));
    let reply = post(&dashboard, "/done", &format!("key={key}")).await;
    assert_eq!(location(&reply), format!("once?key={key}&done=done"));

    let [lock, job, key] = names(&redlock, 2);
    for (path, form) in [
        ("/pause", format!("name={job}")),
        ("/done", format!("key={key}")),
        ("/break", format!("name={lock}")),
    ] {
        let reply = post(&dashboard, path, &form).await;
        assert_eq!(reply.status(), StatusCode::SERVICE_UNAVAILABLE, "{path}");
        let page = reply.into_body().collect().await.unwrap().to_bytes();
        let page = String::from_utf8_lossy(&page);
        assert!(page.contains("set 2 of 2: "), "{path}: {page}");
    }
}
