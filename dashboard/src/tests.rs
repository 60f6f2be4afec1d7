//! Tests: requests to a whole dashboard over embedded nodes, without a network.

use std::{convert::Infallible, future::pending, time::Duration};

use bytes::Bytes;
use http::{
    Request, StatusCode,
    header::{CONTENT_SECURITY_POLICY, LOCATION},
};
use http_body_util::{BodyExt as _, Full};
use tokio::task::JoinHandle;
use tower_redlock::{Redlock, RedlockBuilder, Schedule, node::EmbeddedNodes};
use tower_service::Service as _;

use crate::{Access, Dashboard, reply::Reply};

mod sets;
mod stalled;

/// Over these nodes, in a process that may have to wait for a processor.
fn patient(nodes: &EmbeddedNodes) -> RedlockBuilder {
    let (ttl, timeout) = (Duration::from_secs(60), Duration::from_secs(3));
    Redlock::builder().nodes_from(nodes).ttl(ttl).node_timeout(timeout)
}

fn embedded() -> Redlock {
    patient(&EmbeddedNodes::new(5)).build().unwrap()
}

fn of(access: Access) -> Dashboard {
    over(&embedded(), access)
}

fn over(redlock: &Redlock, access: Access) -> Dashboard {
    Dashboard::new(redlock.clone()).access(move |_: &http::request::Parts| access.by("ann"))
}

/// Runs a tick of a job.
async fn tick(redlock: &Redlock, job: &str) {
    let tick = redlock.job_tick(job, Schedule::every(Duration::from_secs(60)));
    tick.run(|_| async { Ok::<_, Infallible>(()) }).await.unwrap();
}

/// Leads until the task is aborted.
async fn lead(redlock: &Redlock, name: &str) -> JoinHandle<()> {
    let (leader, locks) = (redlock.leader(name), redlock.snapshot().locks.len());
    let leading = tokio::spawn(async move { drop(leader.run(|_| pending::<()>()).await) });
    while redlock.snapshot().locks.len() == locks {
        tokio::task::yield_now().await;
    }
    leading
}

/// Returns the status, the policy and the page.
async fn ask(dashboard: &Dashboard, method: &str, path: &str) -> (StatusCode, String, String) {
    let request = Request::builder().method(method).uri(path);
    let body = Full::<Bytes>::from("name=a&key=a");
    let reply = dashboard.clone().call(request.body(body).unwrap()).await.unwrap();
    let policy = reply.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap().to_owned();
    let status = reply.status();
    let page = reply.into_body().collect().await.unwrap().to_bytes();
    (status, policy, String::from_utf8(page.to_vec()).unwrap())
}

async fn page(dashboard: &Dashboard, path: &str) -> String {
    let (status, _, page) = ask(dashboard, "GET", path).await;
    assert_eq!(status, 200, "{path}: {page}");
    page
}

async fn post(dashboard: &Dashboard, path: &str, form: &str) -> Reply {
    let form = Full::<Bytes>::from(form.to_owned());
    dashboard.clone().call(Request::post(path).body(form).unwrap()).await.unwrap()
}

fn location(reply: &Reply) -> &str {
    assert_eq!(reply.status(), 303);
    reply.headers()[LOCATION].to_str().unwrap()
}

#[tokio::test]
async fn interval_goes_with_each_link() {
    let redlock = embedded();
    let dashboard = over(&redlock, Access::All);
    let _held = redlock.lock("invoice").await.unwrap();
    tick(&redlock, "report").await;
    let leading = lead(&redlock, "shop").await;
    for (path, links) in [
        ("/?refresh=5", &["nodes?refresh=5", "locks?refresh=5#waiting", "./?refresh=5"][..]),
        ("/locks?q=i&refresh=5", &["nodes?refresh=5", "lock?name=invoice&amp;refresh=5"]),
        ("/lock?name=invoice&refresh=5", &["break?name=invoice&amp;refresh=5"]),
        ("/jobs?refresh=5", &["job?name=report&amp;refresh=5"]),
        ("/job?name=report&refresh=5", &["pause?name=report&amp;refresh=5"]),
        ("/leaders?refresh=5", &["shop&amp;refresh=5"]),
        ("/once?key=a&refresh=5", &["done?key=a&amp;refresh=5"]),
        ("/pause?name=report&refresh=5", &["job?name=report&amp;refresh=5"]),
    ] {
        let page = page(&dashboard, path).await;
        for link in links {
            assert!(page.contains(&format!("{link}\"")), "{path} leads to {link}: {page}");
        }
    }
    let form = page(&dashboard, "/pause?name=report&refresh=5").await;
    assert!(form.contains(r#"<input type="hidden" name="refresh" value="5">"#), "{form}");
    let reply = post(&dashboard, "/pause", "name=report&refresh=5").await;
    assert_eq!(location(&reply), "job?name=report&done=pause&refresh=5");
    let reply = post(&dashboard, "/resume", "name=report").await;
    assert_eq!(location(&reply), "job?name=report&done=resume");
    leading.abort();
}

#[tokio::test]
async fn refusals_have_the_style() {
    let (reader, all) = (of(Access::ReadOnly), of(Access::All));
    for (dashboard, method, path, expected) in [
        (&reader, "POST", "/pause", 403),
        (&reader, "GET", "/pause?name=a", 403),
        (&all, "POST", "/break", 409),
        (&all, "GET", "/none", 404),
        (&all, "DELETE", "/nodes", 405),
    ] {
        let (status, policy, page) = ask(dashboard, method, path).await;
        assert_eq!(status, expected, "{method} {path}");
        assert!(page.contains(r#"<link rel="stylesheet" href="style.css">"#), "{page}");
        assert!(page.contains(r#"<link rel="icon" href="icon.svg""#), "{page}");
        assert!(policy.contains("style-src 'self'"), "{policy}");
    }
}

#[tokio::test]
async fn unreachable_files_are_not_named() {
    let closed = Dashboard::new(embedded());
    // Relative to the last one, the files are elsewhere.
    for (dashboard, path, expected) in [
        (&closed, "/", 403),
        (&of(Access::Forbidden), "/nodes", 403),
        (&of(Access::All), "/api/none", 404),
    ] {
        let (status, policy, page) = ask(dashboard, "GET", path).await;
        assert_eq!(status, expected, "{path}");
        assert!(!page.contains("style.css") && !page.contains("icon.svg"), "{page}");
        assert!(page.contains(r#"<link rel="icon" href="data:,">"#), "{page}");
        assert!(policy.contains("img-src data:"), "{policy}");
    }
}

#[tokio::test]
async fn subpages_name_what_they_show() {
    let redlock = embedded();
    let dashboard = over(&redlock, Access::All);
    let _held = redlock.lock("<b>").await.unwrap();
    for (path, title, section) in [
        ("/lock?name=%3Cb%3E", "&lt;b&gt; – Lock", "Locks"),
        ("/job?name=report", "report – Job", "Jobs"),
        ("/break?name=%3Cb%3E", "&lt;b&gt; – Take a lock away from its holder?", "Locks"),
        ("/forget?key=a", "a – Forget a key?", "Once"),
    ] {
        let page = page(&dashboard, path).await;
        assert!(page.contains(&format!("<title>{title} – tower-redlock</title>")), "{page}");
        // The link leads to another page than this one.
        assert!(page.contains(&format!(r#"aria-current="true">{section}</a>"#)), "{page}");
        assert!(!page.contains(r#"aria-current="page""#), "{page}");
    }
    let locks = page(&dashboard, "/locks").await;
    assert!(locks.contains(r#"aria-current="page">Locks</a>"#), "{locks}");
}

#[tokio::test]
async fn pause_is_said_once() {
    let redlock = embedded();
    let dashboard = over(&redlock, Access::All);
    tick(&redlock, "report").await;
    redlock.pause_job("report").by("bob").await.unwrap();
    let page = page(&dashboard, "/jobs").await;
    assert!(page.contains("<td>paused by <bdi>bob</bdi></td>"), "{page}");
}

#[tokio::test]
async fn missing_tokens_are_left_out() {
    let nodes = EmbeddedNodes::new(3);
    let redlock = patient(&nodes).fencing(false).build().unwrap();
    let dashboard = over(&redlock, Access::All);
    let leading = lead(&redlock, "shop").await;
    let leaders = page(&dashboard, "/leaders").await;
    assert!(leaders.contains(r#"<td class="number">–</td></tr>"#), "{leaders}");
    let _held = redlock.lock("invoice").await.unwrap();
    let lock = page(&dashboard, "/lock?name=invoice").await;
    assert!(lock.contains("Held here") && !lock.contains("token 0"), "{lock}");
    leading.abort();
}

#[tokio::test]
async fn double_click_acts_once() {
    let redlock = embedded();
    let dashboard = over(&redlock, Access::All);
    let requested = async || redlock.job_control("report").await.unwrap().requested.len();
    let form = async || {
        let form = page(&dashboard, "/trigger?name=report").await;
        format!("name=report&form={}", field(&form, "form"))
    };
    let first = form().await;
    let click = || post(&dashboard, "/trigger", &first);
    let (one, other) = tokio::join!(click(), click());
    assert_eq!(location(&one), "job?name=report&done=trigger");
    assert_eq!(location(&other), location(&one));
    assert_eq!(location(&click().await), location(&one));
    assert_eq!(requested().await, 1);
    let second = form().await;
    assert_eq!(post(&dashboard, "/trigger", &second).await.status(), 303);
    assert_eq!(requested().await, 2, "it is another form");
}

/// Returns the value of a hidden field.
fn field<'a>(page: &'a str, name: &str) -> &'a str {
    let value = page.split(&format!(r#"name="{name}" value=""#)).nth(1).unwrap();
    value.split('"').next().unwrap()
}

#[tokio::test]
async fn idle_job_has_no_stop() {
    let redlock = embedded();
    let dashboard = over(&redlock, Access::All);
    tick(&redlock, "report").await;

    let job = page(&dashboard, "/job?name=report").await;
    let form = page(&dashboard, "/stop?name=report").await;
    let reply = post(&dashboard, "/stop", "name=report").await;

    assert!(!job.contains("stop?name"), "{job}");
    assert!(form.contains("nothing to stop") && !form.contains("confirm\" type"), "{form}");
    assert_eq!(reply.status(), StatusCode::CONFLICT);
}

#[tokio::test]
async fn jobs_have_pages() {
    let redlock = embedded();
    for number in 0..130 {
        tick(&redlock, &format!("job-{number:03}")).await;
    }
    let dashboard = over(&redlock, Access::ReadOnly);
    for (path, first, count) in [("/jobs", "job-000", 100), ("/jobs?page=2", "job-100", 30)] {
        // The first half may be shown before the other is read.
        let shown = loop {
            let page = page(&dashboard, path).await;
            if !page.contains("still being read") {
                break page;
            }
        };
        assert!(shown.contains("130 jobs.") && shown.contains(first), "{shown}");
        assert_eq!(shown.matches("data-job=").count(), count, "{path}");
        assert_eq!(shown.matches("<td>finished</td>").count(), count, "{path}");
    }
    let page = page(&dashboard, "/jobs").await;
    assert!(page.contains(r#"<a rel="next" href="jobs?page=2">"#), "{page}");
}

mod slots {
    use super::*;

    /// A manager that holds the only slot of `export`, with a request that waits for any.
    async fn full() -> (Redlock, tower_redlock::Lock, JoinHandle<()>) {
        let redlock = embedded();
        let held = redlock.lock("export").slots(1).await.unwrap();
        let waits = redlock.lock("export").slots(1).wait(Duration::from_secs(600));
        let waiting = tokio::spawn(async move { drop(waits.await) });
        while redlock.snapshot().waiting.is_empty() {
            tokio::task::yield_now().await;
        }
        (redlock, held, waiting)
    }

    async fn json(dashboard: &Dashboard, path: &str) -> serde_json::Value {
        serde_json::from_str(&page(dashboard, path).await).unwrap()
    }

    #[tokio::test]
    async fn list_has_names_and_numbers() {
        let (redlock, _held, waiting) = full().await;
        let dashboard = over(&redlock, Access::ReadOnly);

        let locks = page(&dashboard, "/locks").await;
        let found = page(&dashboard, "/locks?q=export,+slot").await;
        let api = json(&dashboard, "/api/locks").await;

        for part in [
            r#"data-lock="slot:0:export""#,
            r#"lock?name=slot%3A0%3Aexport"><bdi>export, slot 0</bdi>"#,
            "<bdi>export, any slot of 1</bdi>",
        ] {
            assert!(locks.contains(part), "{part}: {locks}");
        }
        assert!(found.contains("<bdi>export, slot 0</bdi>"), "{found}");
        let lock = &api["fleet"]["locks"][0];
        assert_eq!(lock["name"], "slot:0:export");
        assert_eq!((&lock["slot"], &lock["slot_of"]), (&0.into(), &"export".into()));
        let line = &api["process"]["waiting"][0];
        assert_eq!((&line["name"], &line["slot_of"]), (&"slot:*1:export".into(), &"export".into()));
        assert!(line["slot"].is_null());
        waiting.abort();
    }

    #[tokio::test]
    async fn page_leads_to_all_slots() {
        let (redlock, _held, waiting) = full().await;
        let _plain = redlock.lock("export").await.unwrap();
        let dashboard = over(&redlock, Access::All);
        let all = r#"href="locks?q=export%2C+slot""#;

        let slot = page(&dashboard, "/lock?name=slot:0:export").await;
        let line = page(&dashboard, "/lock?name=slot:*1:export").await;
        let plain = page(&dashboard, "/lock?name=export").await;
        let form = page(&dashboard, "/break?name=slot:0:export").await;
        let api = json(&dashboard, "/api/lock?name=slot:0:export").await;

        assert!(slot.contains("<title>export, slot 0 – Lock"), "{slot}");
        assert!(slot.contains(all) && slot.contains("break?name=slot%3A0%3Aexport"), "{slot}");
        assert!(
            line.contains("<title>export, any slot of 1 – Lock") && line.contains(all),
            "{line}"
        );
        assert!(line.contains("No lock, but the requests of this process"), "{line}");
        assert!(!plain.contains(all), "{plain}");
        assert!(form.contains("export, slot 0") && form.contains(r#"value="slot:0:export""#));
        assert_eq!((&api["slot"], &api["slot_of"]), (&0.into(), &"export".into()));
        waiting.abort();
    }

    #[tokio::test]
    async fn events_name_any_slot() {
        let (redlock, _held, waiting) = full().await;
        waiting.abort();
        let dashboard = over(&redlock, Access::ReadOnly);
        assert!(redlock.lock("export").slots(1).wait(Duration::ZERO).await.is_err());

        // A task records the event.
        let refused = loop {
            let events = json(&dashboard, "/api/events").await;
            if let Some(event) = events["process"]["events"].get(0) {
                break event.clone();
            }
            tokio::task::yield_now().await;
        };

        assert_eq!(refused["names"][0], "slot:*1:export");
        let text = refused["text"].as_str().unwrap();
        assert!(text.starts_with("export, any slot of 1 was not acquired within "), "{text}");
    }
}

mod shared {
    use super::*;

    #[tokio::test]
    async fn readers_are_listed_and_all_lose_the_lock() {
        let nodes = EmbeddedNodes::new(3);
        let process = |owner: &str| patient(&nodes).owner(owner).build().unwrap();
        let (ann, bob) = (process("ann's"), process("bob's"));
        let _ann = ann.lock("report").shared().await.unwrap();
        let _bob = bob.lock("report").shared().await.unwrap();
        let dashboard = over(&ann, Access::All);

        let list = page(&dashboard, "/locks?q=bob").await;
        let lock = page(&dashboard, "/lock?name=report").await;
        let api = page(&dashboard, "/api/lock?name=report").await;
        let form = page(&dashboard, "/break?name=report").await;

        assert!(list.contains("2 readers: <bdi>"), "{list}");
        for part in ["shared by 2 readers", "<bdi>ann's</bdi>", "<bdi>bob's</bdi>", ", shared, "] {
            assert!(lock.contains(part), "{part}: {lock}");
        }
        let api: serde_json::Value = serde_json::from_str(&api).unwrap();
        let holder = &api["fleet"]["holder"];
        assert_eq!((&holder["mode"], &holder["readers"]), (&"shared".into(), &2.into()));
        assert!(holder["shared_by"][1]["since_unix_ms"].is_u64(), "{holder}");
        let (form, mark) = (field(&form, "form"), field(&form, "holder"));
        let sent = format!("name=report&form={form}&holder={mark}");
        let reply = post(&dashboard, "/break", &sent).await;
        assert_eq!(location(&reply), "lock?name=report&done=break");
        assert!(bob.inspect("report").await.unwrap().is_none());
    }
}
