//! What viewers do: asked, confirmed, done, and shown among the events.

use std::time::Duration;

use futures_util::future::join_all;
use tower_redlock::{LockError, node::NodeHealth};

use crate::{
    access::ACTIONS,
    fixture::{Fixture, served, with},
    support::{LONG, in_time},
    web::{Browser, eventually, html::assert_strict, http},
};

#[tokio::test(flavor = "multi_thread")]
async fn broken_lock_is_lost() {
    let (fixture, site, browser) = served().await;
    let (holder, heir) = (fixture.renewing("worker-7").await, fixture.process("worker-8").await);
    let held = holder.lock("invoice:42").await.unwrap();
    let next = tokio::spawn(async move { heir.lock("invoice:42").wait(LONG).await });
    let row = with("data-lock", "invoice:42");
    browser.open_with(&site.page("locks"), &row).await;
    browser.click(&format!("{row} a")).await;
    browser.click("a[data-action=break]").await;
    browser.wait_for("#confirm").await;
    assert!(browser.body().await.contains("worker-7"));
    assert!(held.is_valid(), "asking does nothing");
    browser.click("#confirm").await;
    browser.wait_text("[role=status]", "taken away").await;
    browser.wait_url("/lock?name=invoice%3A42&done=break").await;
    let taken = in_time(next).await.unwrap().unwrap();
    assert!(taken.fencing_token() > held.fencing_token());
    in_time(held.lost()).await;
    assert!(!held.is_valid());
    browser.open(&site.page("lock?name=invoice:42&refresh=1")).await;
    browser.wait_text("#holder", "worker-8").await;
    browser.wait_text("#lock-events li[data-event=break]", "ada").await;
    browser.open(&site.page("events")).await;
    browser.wait_text("li[data-event=break]", "invoice:42, by ada").await;
    drop(taken);
    browser.assert_no_errors(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn once_keys_are_marked_and_forgotten() {
    let (fixture, site, browser) = served().await;
    browser.open(&site.page("once")).await;
    browser.fill("#key", "payment 7/ü").await;
    browser.click("form[role=search] button").await;
    browser.wait_for("[data-once=none]").await;
    assert!(!browser.has("a[data-action=forget]").await);
    browser.click("a[data-action=done]").await;
    browser.click("#confirm").await;
    browser.wait_for("[data-once=done]").await;
    browser.wait_text("[role=status]", "recorded as done").await;
    let ran = async || {
        fixture.redlock.once("payment 7/ü").run(|_| async { Ok::<_, LockError>(()) }).await
    };
    assert!(matches!(ran().await, Ok(tower_redlock::once::Once::AlreadyDone { .. })));
    browser.click("a[data-action=forget]").await;
    browser.click("#confirm").await;
    browser.wait_for("[data-once=none]").await;
    assert!(matches!(ran().await, Ok(tower_redlock::once::Once::Ran(()))));
    browser.open(&site.page("events")).await;
    assert!(browser.has("li[data-event=done]").await && browser.has("li[data-event=forget]").await);
    browser.assert_no_errors(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn running_once_work_is_shown() {
    let fixture = Fixture::new().await;
    let other = fixture.process("worker-7").await;
    let site = fixture.serve().await;
    let (started, begun) = tokio::sync::oneshot::channel();
    let work = tokio::spawn(async move {
        let work = |_| async move {
            let _ = started.send(());
            std::future::pending::<Result<(), LockError>>().await
        };
        other.once("payment").run(work).await
    });
    in_time(begun).await.unwrap();
    let shown = http::get(&site.page("once?key=payment")).await;
    assert_strict("once", &shown.body);
    assert!(shown.body.contains("data-once=\"in progress\""), "{}", shown.body);
    assert!(shown.body.contains("worker-7"), "{}", shown.body);
    work.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn actions_without_servers_say_so() {
    let mut fixture = Fixture::new().await;
    let site = fixture.serve().await;
    for server in &mut fixture.servers {
        server.kill();
    }
    let down = async || !fixture.redlock.health().iter().any(NodeHealth::is_voting);
    eventually("no node votes", down).await;
    let answers = ACTIONS.map(async |(action, param)| {
        let answer = http::post(&site.page(action), &[], &format!("{param}=invoice:42")).await;
        assert_eq!(answer.status, 503, "{action}: {}", answer.body);
        assert_strict(action, &answer.body);
        if action != "break" {
            assert!(answer.body.contains("only 0 of 3 nodes vote"), "{action}: {}", answer.body);
        }
        for node in ["node-1", "node-2", "node-3"] {
            assert!(answer.body.contains(node), "{action} names {node}: {}", answer.body);
        }
    });
    join_all(answers).await;
    let browser = Browser::start().await;
    browser.open_with(&site.page("locks"), "p.trouble").await;
    browser.wait_text("p.trouble", "missing").await;
    browser.assert_usable().await;
    for page in ["lock?name=a", "nodes", "jobs", "job?name=a", "leaders", "once?key=a", "events"] {
        let answer = http::get(&site.page(page)).await;
        assert_eq!(answer.status, 200, "{page}");
        assert_strict(page, &answer.body);
    }
    browser.assert_no_errors(&[]).await;
    tokio::time::timeout(Duration::from_secs(30), fixture.redlock.shutdown()).await.unwrap();
}
