//! The keyboard, the interval of refreshing, and screens of any kind.

use std::{convert::Infallible, time::Duration};

use fantoccini::actions::{InputSource, KeyAction, KeyActions};
use tower_redlock::{Job, Schedule, Scheduler};

use crate::{
    fixture::{Fixture, served, with},
    web::{Browser, http},
};

async fn press(browser: &Browser, key: char) {
    let keys = KeyActions::new("keyboard".into())
        .then(KeyAction::Down { value: key })
        .then(KeyAction::Up { value: key });
    browser.keys(keys).await;
}

const TAB: char = '\u{e004}';
const ENTER: char = '\u{e007}';
const FOCUSED: &str =
    "const on = document.activeElement; return on.getAttribute('href') ?? on.id ?? on.tagName";

#[tokio::test(flavor = "multi_thread")]
async fn keyboard_reaches_everything() {
    let (fixture, site, browser) = served().await;
    fixture.store(0, "invoice:42", "crashed", 4);
    browser.open_with(&site.page("locks?refresh=0"), "tr[data-lock]").await;
    let mut reached = Vec::new();
    for _ in 0..16 {
        press(&browser, TAB).await;
        let on = browser.script(FOCUSED).await;
        reached.push(on.as_str().unwrap_or_default().to_owned());
        let outline = "return getComputedStyle(document.activeElement).outlineStyle";
        let is_seen = browser.script(outline).await != "none";
        assert!(
            is_seen || reached.last().is_some_and(String::is_empty),
            "{reached:?} has no outline"
        );
    }
    assert_eq!(reached[0], "#main");
    let order = [
        "#main",
        "./?refresh=0",
        "locks?refresh=0",
        "nodes?refresh=0",
        "events?refresh=0",
        "refresh",
        "q",
        "lock?name=invoice%3A42&refresh=0",
    ];
    let mut rest = reached.iter();
    for next in order {
        let is_next = |on: &String| on == next;
        assert!(rest.any(is_next), "{next} is not reached in order: {reached:?}");
    }
    browser.script("document.activeElement.blur(); scrollTo(0, 0)").await;
    browser.script("document.querySelector('tr[data-lock] a').focus()").await;
    press(&browser, ENTER).await;
    browser.wait_url("lock?name=invoice%3A42&refresh=0").await;
    browser.assert_no_errors(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn focus_survives_a_refresh() {
    let (fixture, site, browser) = served().await;
    fixture.store(0, "invoice:42", "crashed", 4);
    browser.open(&site.page("locks?refresh=1")).await;
    let row = with("data-lock", "invoice:42");
    browser.wait_for(&row).await;
    browser.script("document.querySelector('tr[data-lock] a').focus()").await;
    browser.script("document.querySelector('tr[data-lock]').dataset.old = 'yes'").await;
    fixture.store(1, "invoice:43", "crashed", 5);
    browser.wait_for(&with("data-lock", "invoice:43")).await;
    assert!(!browser.has("tr[data-old]").await, "the table was replaced");
    assert_eq!(browser.script(FOCUSED).await, "lock?name=invoice%3A42&refresh=1");
    browser.assert_no_errors(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn interval_is_kept() {
    let (_fixture, site, browser) = served().await;
    browser.open(&site.page("locks")).await;
    assert_eq!(
        browser.attributes("#refresh option", "value").await,
        ["0", "1", "2", "5", "10", "30"]
    );
    let chosen = "return document.getElementById('refresh').value";
    assert_eq!(browser.script(chosen).await, "2");
    browser.choose("#refresh", "1").await;
    browser.click("a[href^=nodes]").await;
    browser.wait_for("tr[data-node]").await;
    assert_eq!(browser.script(chosen).await, "1");
    // The address comes first.
    browser.open(&site.page("nodes?refresh=30")).await;
    assert_eq!(browser.script(chosen).await, "30");
    // It goes with each link, until another one is chosen.
    browser.choose("#refresh", "5").await;
    browser.click("a[href^=locks]").await;
    browser.wait_url("/locks?refresh=5").await;
    assert_eq!(browser.script(chosen).await, "5");
    browser.open(&site.page("nodes?refresh=7")).await;
    assert_eq!(browser.script(chosen).await, "0");
    browser.assert_no_errors(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_service_is_reported() {
    let fixture = Fixture::new().await;
    let access = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let open = std::sync::Arc::clone(&access);
    let site = fixture
        .serve_to(move |_: &::http::request::Parts| {
            let is_open = open.load(std::sync::atomic::Ordering::SeqCst);
            if is_open {
                tower_redlock_dashboard::Access::All
            } else {
                tower_redlock_dashboard::Access::Forbidden
            }
        })
        .await;
    let browser = Browser::start().await;
    browser.open(&site.page("locks?refresh=1")).await;
    access.store(false, std::sync::atomic::Ordering::SeqCst);
    browser.wait_text("#live-state", "out of date").await;
    access.store(true, std::sync::atomic::Ordering::SeqCst);
    browser
        .until("the warning is gone".into(), async || {
            browser.text("#live-state").await.is_some_and(|text| text.is_empty())
        })
        .await;
    browser.assert_no_errors(&[403]).await;
}

/// Keeps pictures of each page, light, dark and on a telephone, for a person.
#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_usable_on_each_screen() {
    let fixture = Fixture::new().await;
    let (holder, long) =
        (fixture.process("worker-7").await, "payment:".to_owned() + &"0123456789".repeat(20));
    let _held = holder.lock("invoice:42").await.unwrap();
    let _long = holder.lock(long.as_str()).await.unwrap();
    let here = fixture.redlock.clone();
    let waiting =
        tokio::spawn(async move { here.lock("invoice:42").wait(crate::support::LONG).await });
    fixture.store(1, "invoice:left", "crashed-process-with-a-long-name", 7);
    let job = |name| {
        Job::new(name, Schedule::every(Duration::from_secs(1)), |_| async {
            Ok::<_, Infallible>(())
        })
    };
    let scheduler = Scheduler::new(fixture.redlock.clone())
        .jobs([job("report"), job("import")])
        .start()
        .unwrap();
    let site = fixture.serve_jobs(scheduler.clone()).await;
    http::post(&site.page("pause"), &[], "name=import&why=the+disk+is+full").await;
    http::post(&site.page("done"), &[], "key=payment:7").await;
    let browser = Browser::start().await;
    let pages = [
        ("overview", ""),
        ("locks", "locks"),
        ("lock", "lock?name=invoice:42"),
        ("nodes", "nodes"),
        ("jobs", "jobs"),
        ("job", "job?name=report"),
        ("leaders", "leaders"),
        ("once", "once?key=payment:7"),
        ("events", "events"),
        ("break", "break?name=invoice:42"),
        ("pause", "pause?name=report"),
        ("stop", "stop?name=report"),
    ];
    // The job has runs to draw, and the lock holders.
    browser.open(&site.page("job?name=report&refresh=1")).await;
    browser.wait_for("#runs tbody tr:nth-child(5)").await;
    for (name, page) in pages {
        browser.assert_usable_on_screens(&site.page(page), "main h1", name).await;
    }
    browser.assert_no_errors(&[]).await;
    waiting.abort();
    scheduler.shutdown(Duration::from_secs(5)).await;
}
