//! Several sets of servers, of which one may be down.

use std::sync::Arc;

use serde_json::Value;
use tower_redlock::{
    Job, Scheduler,
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

async fn json(dashboard: &Dashboard, path: &str) -> Value {
    serde_json::from_str(&page(dashboard, path).await).unwrap()
}

const WORKS: &str = "Names of set 2 of 2 can't be locked at present; names of set 1 of 2 can.";

#[tokio::test]
async fn nodes_are_grouped_by_set() {
    let redlock = with_down(2);
    let dashboard = over(&redlock, Access::ReadOnly);

    let nodes = page(&dashboard, "/nodes").await;
    let api = json(&dashboard, "/api/nodes").await;

    assert!(nodes.contains(&format!(r#"<p id="works">{WORKS}</p>"#)), "{nodes}");
    let (_, sets) = nodes.split_once(r#"id="set-1" data-set="1"><h3>Set 1 of 2</h3>"#).unwrap();
    let (one, two) = sets.split_once(r#"id="set-2" data-set="2"><h3>Set 2 of 2</h3>"#).unwrap();
    assert!(one.contains("3 of 3 nodes vote, 2 are needed"), "{one}");
    assert!(two.contains("no locks at present; 0 of 3 nodes vote, 2 are needed"), "{two}");
    assert_eq!([one, two].map(|set| set.matches("data-state=\"voting\"").count()), [3, 0]);
    assert_eq!([one, two].map(|set| set.matches(r#"data-advice="down""#).count()), [0, 3]);
    assert!(two.contains("Table of nodes of set 2 of 2") && two.contains("To do: "), "{two}");
    let diagnosis = &api["process"]["diagnosis"];
    assert_eq!(diagnosis["verdict"], "no_quorum");
    assert_eq!(diagnosis["sets"][1]["verdict"], "no_quorum");
    assert_ne!(diagnosis["sets"][0]["verdict"], "no_quorum");
}

#[tokio::test]
async fn overview_tells_which_set_is_down() {
    let redlock = with_down(2);
    let dashboard = over(&redlock, Access::ReadOnly);

    let overview = page(&dashboard, "/?refresh=5").await;
    let api = json(&dashboard, "/api/overview").await;

    assert!(overview.contains("Something is wrong"), "{overview}");
    assert!(
        overview.contains(WORKS) && overview.contains("no quorum in 1 of 2 sets"),
        "{overview}"
    );
    let heading = r#"data-set="2"><h3><a href="nodes?refresh=5#set-2">Set 2 of 2</a></h3>"#;
    let (_, two) = overview.split_once(heading).unwrap();
    assert!(two.contains(r#"data-verdict="no quorum""#) && two.contains("To do: "), "{two}");
    assert_eq!((&api["level"], &api["sets"][1]["verdict"]), (&"bad".into(), &"no_quorum".into()));
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

        let cell = format!(r#"<td class="set">set {up} of 2</td></tr>"#);
        for (page, row) in
            [(&locks, format!("data-lock=\"{lock}\"")), (&jobs, format!("data-job=\"{job}\""))]
        {
            let (_, row) = page.split_once(&row).unwrap_or_else(|| panic!("{row}: {page}"));
            assert!(row.split_inclusive("</tr>").next().unwrap().ends_with(&cell), "{row}");
            assert!(page.contains(r#"<th scope="col">Set</th>"#), "{page}");
            let trouble = format!(
                "Something may be missing here: <bdi>too few votes count (set {down} of 2: "
            );
            assert!(page.contains(&trouble), "{page}");
        }
        let api = json(&dashboard, "/api/locks").await;
        assert_eq!(api["fleet"]["locks"][0]["set"], up);
        assert_eq!(json(&dashboard, "/api/jobs").await["fleet"]["jobs"][0]["set"], up);
    }
}

#[tokio::test]
async fn job_of_this_process_has_its_set() {
    let redlock = with_down(2);
    let [_, name, _] = names(&redlock, 2);
    let work = |_| async { Ok::<_, Infallible>(()) };
    let job = Job::new(&*name, Schedule::every(Duration::from_secs(60)), work);
    let scheduler = Scheduler::new(redlock.clone()).job(job).start().unwrap();
    let dashboard = over(&redlock, Access::ReadOnly).jobs(scheduler.clone());

    let jobs = page(&dashboard, "/jobs").await;

    let (_, row) = jobs.split_once(&format!("data-job-here=\"{name}\"")).unwrap();
    let row = row.split_inclusive("</tr>").next().unwrap();
    assert!(row.ends_with(r#"<td class="set">set 2 of 2</td></tr>"#), "{row}");
    scheduler.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn page_of_a_name_tells_its_set() {
    let redlock = with_down(2);
    let dashboard = over(&redlock, Access::All);
    // The servers are known to be down.
    page(&dashboard, "/nodes").await;
    for (number, voting) in [(1, 3), (2, 0)] {
        let [lock, job, key] = names(&redlock, number);
        for path in
            [format!("lock?name={lock}"), format!("job?name={job}"), format!("once?key={key}")]
        {
            let shown = page(&dashboard, &format!("/{path}")).await;
            let api = json(&dashboard, &format!("/api/{path}")).await;

            assert!(shown.contains(&format!("Set {number} of 2 <small")), "{path}: {shown}");
            let words = format!("This name belongs to set {number} of 2");
            assert!(shown.contains(&words), "{path}: {shown}");
            assert!(shown.contains(&format!("{voting} of 3 vote")), "{path}: {shown}");
            let words = "it can't be locked at present</strong>. Names of set 1 of 2 can.";
            let is_down = shown.contains(words);
            assert_eq!(is_down, number == 2, "{path}: {shown}");
            assert!(shown.contains(&format!(r#"href="nodes#set-{number}""#)), "{path}: {shown}");
            assert_eq!(api["set"], number, "{path}: {api}");
        }
        let form = page(&dashboard, &format!("/pause?name={job}")).await;
        assert!(form.contains(&format!("#set-{number}\">set {number} of 2</a>")), "{form}");
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
    let (status, _, page) = ask(&dashboard, "GET", &format!("/break?name={lock}")).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(page.contains("set 2 of 2: "), "{page}");
}

#[tokio::test]
async fn only_set_is_not_mentioned() {
    let redlock = embedded();
    let dashboard = over(&redlock, Access::All);
    let _held = redlock.lock("a").await.unwrap();
    tick(&redlock, "a").await;
    for path in [
        "",
        "nodes",
        "locks",
        "lock?name=a",
        "jobs",
        "job?name=a",
        "leaders",
        "once?key=a",
        "pause?name=a",
    ] {
        let shown = page(&dashboard, &format!("/{path}")).await;
        for part in ["data-set", ">Set</th>", "et 1 of 1", "id=\"works\"", "id=\"set"] {
            assert!(!shown.contains(part), "{path} has {part}: {shown}");
        }
        if !path.starts_with("pause") {
            let twin = if path.is_empty() { "overview" } else { path };
            let api = page(&dashboard, &format!("/api/{twin}")).await;
            assert!(!api.contains("\"set\"") && !api.contains("\"sets\""), "{path}: {api}");
        }
    }
}
