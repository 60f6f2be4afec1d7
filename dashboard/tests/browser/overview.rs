//! The first page: numbers that agree with what happened, and whether all is well.

use std::time::Duration;

use tower_redlock::{Redlock, Schedule};

use crate::{
    fixture::{Fixture, Site, served, with},
    support::{LONG, in_time},
    web::{Browser, Screen, html::assert_strict, http},
};

fn tile(id: &str, level: &str) -> String {
    format!("{}{}", with("data-tile", id), with("data-level", level))
}

/// Runs the current tick of a job that is due each minute.
async fn tick(redlock: &Redlock, job: &str, result: Result<(), &'static str>) {
    let tick = redlock.job_tick(job, Schedule::every(Duration::from_secs(60)));
    let ran = tick.run(|_| async { result }).await;
    assert_eq!(ran.is_ok(), result.is_ok(), "{job}: {ran:?}");
}

fn value(card: &str) -> String {
    format!("{} .value", with("data-card", card))
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_agree_with_what_happened() {
    let fixture = Fixture::new().await;
    let other = fixture.process("worker-7").await;
    let site = fixture.serve().await;
    for number in 0..30 {
        let lock = fixture.redlock.lock(format!("invoice:{number}")).await.unwrap();
        lock.release().await.unwrap();
    }
    let held = other.lock("invoice:42").await.unwrap();
    for _ in 0..3 {
        fixture.redlock.lock("invoice:42").await.unwrap_err();
    }

    let browser = Browser::start().await;
    let row = with("data-contended", "invoice:42");
    browser.open_with(&site.page(""), &row).await;

    browser.wait_text(&value("acquires"), "30").await;
    browser.wait_text(&value("refusals"), "3").await;
    browser.wait_text(&value("losses"), "0").await;
    let cells = browser.texts(&format!("{row} td")).await;
    assert_eq!(cells[..4], ["0", "–", "0", "3"], "{cells:?}");
    browser.click("#activity-numbers summary").await;
    let total = browser.texts("#activity-numbers .total td").await;
    assert_eq!((&*total[0], &*total[3], &*total[4]), ("30", "3", "0"), "{total:?}");
    let twin = http::get(&site.page("api/overview")).await.json();
    let sum = |what: &str| {
        let steps = twin["process"]["activity"]["steps"].as_array().unwrap();
        steps.iter().map(|step| step[what].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!((sum("acquired"), sum("refused"), sum("lost")), (30, 3, 0));
    assert!(twin["process"]["activity"]["total"]["wait_p99_ms"].as_f64().unwrap() > 0.0);
    assert_strict("overview", &http::get(&site.page("")).await.body);
    browser.click(&format!("{row} a")).await;
    browser.wait_url("/lock?name=invoice%3A42").await;
    drop(held);
    browser.assert_no_errors(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn state_follows_servers_and_losses() {
    let mut fixture = Fixture::new().await;
    let (ours, other) = (fixture.renewing("web-1").await, fixture.process("worker-7").await);
    let site = Site::of(
        tower_redlock_dashboard::Dashboard::new(ours.clone()).access(crate::fixture::everything),
    )
    .await;
    let browser = Browser::start().await;
    browser.open_with(&site.page("?refresh=1"), &tile("votes", "good")).await;
    browser.wait_text("#state h2", "All is well").await;

    let held = ours.lock("invoice:42").await.unwrap();
    browser.wait_text(&with("data-tile", "held"), "1").await;
    let heir = other.clone();
    let next = tokio::spawn(async move { heir.lock("invoice:42").wait(LONG).await });
    other.revoke("invoice:42").await.unwrap();
    let _taken = in_time(next).await.unwrap().unwrap();
    in_time(held.lost()).await;
    browser.wait_for(&tile("losses", "bad")).await;
    browser.wait_text("#state h2", "Something is wrong").await;
    browser.wait_text(&value("losses"), "1").await;

    fixture.servers[1].kill();
    browser.wait_for(&tile("votes", "warn")).await;
    browser.wait_text(&with("data-tile", "votes"), "2 of 3").await;
    fixture.servers[2].kill();
    browser.wait_for(&tile("votes", "bad")).await;
    browser.click(&with("data-tile", "votes")).await;
    browser.wait_url("/nodes?refresh=1").await;
    browser.assert_no_errors(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_in_trouble_are_listed() {
    let (fixture, site, browser) = served().await;
    tick(&fixture.redlock, "well", Ok(())).await;
    tick(&fixture.redlock, "broken", Err("the disk is full")).await;
    tick(&fixture.redlock, "halted", Ok(())).await;
    fixture.redlock.pause_job("halted").by("ann").await.unwrap();

    let failed = with("data-trouble", "broken");
    browser.open_with(&site.page(""), &failed).await;
    browser.wait_text(&failed, "the disk is full").await;
    browser.wait_text(&with("data-trouble", "halted"), "paused by ann").await;
    browser.wait_text(&tile("jobs", "warn"), "1 failed, 0 late, 1 paused").await;
    assert!(!browser.has(&with("data-trouble", "well")).await);

    browser.click(&format!("{failed} a")).await;
    browser.wait_url("/job?name=broken").await;
    browser.wait_for("#next-ticks .ticks li:nth-child(5)").await;
    browser.wait_for(".calendar [data-day] rect.failed").await;
    browser.wait_text("#year figcaption", "runs on 1 day, 1 with a failure").await;
    assert_strict("job", &http::get(&site.page("job?name=broken")).await.body);
    browser.assert_no_errors(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn holders_of_late_are_drawn() {
    let (fixture, site, browser) = served().await;
    let other = fixture.process("worker-7").await;
    let held = other.lock("invoice:42").await.unwrap();
    let waits = fixture.redlock.lock("invoice:42").wait(LONG);
    let waiting = tokio::spawn(async move { waits.await });
    browser.open(&site.page("lock?name=invoice:42&refresh=1")).await;
    browser.wait_text("#holders tbody", "worker-7").await;
    held.release().await.unwrap();
    let ours = waiting.await.unwrap().unwrap();

    let latest = format!("#holders {}", with("data-holding", &ours.fencing_token().to_string()));
    browser.wait_text(&latest, "web-1").await;
    browser.wait_text(&latest, "not seen to end").await;
    browser.wait_text("#holders tr[data-holding]:nth-child(2)", "ended before").await;
    assert_eq!(browser.count("#holders .timeline svg").await, 2);
    browser.screenshot("timeline").await;
    assert_strict("lock", &http::get(&site.page("lock?name=invoice:42")).await.body);
    let twin = http::get(&site.page("api/lock?name=invoice:42")).await.json();
    let ends: Vec<_> =
        twin["holders"].as_array().unwrap().iter().map(|of| of["end"].clone()).collect();
    assert_eq!(ends, ["open", "before"]);
    browser.assert_no_errors(&[]).await;
}

/// A reader of the table would lose it at each refresh.
#[tokio::test(flavor = "multi_thread")]
async fn opened_table_survives_a_refresh() {
    let (fixture, site, browser) = served().await;
    browser.open(&site.page("?refresh=1")).await;
    browser.click("#activity-numbers summary").await;
    browser.script("document.querySelector('#activity').dataset.old = 'yes'").await;
    fixture.redlock.lock("invoice:42").await.unwrap().release().await.unwrap();
    browser.wait_gone("#activity[data-old]").await;
    browser.wait_for("#activity-numbers[open]").await;
    browser.assert_no_errors(&[]).await;
}

/// Takes the picture of the README: `scripts/dashboard-picture` keeps it.
#[tokio::test]
async fn picture_of_a_busy_process() {
    let fixture = Fixture::new().await;
    for name in ["billing", "cleanup", "import", "newsletter", "report"] {
        tick(&fixture.redlock, name, Ok(())).await;
    }
    fixture.redlock.pause_job("import").by("ann").await.unwrap();
    let site = fixture.serve().await;
    let worker = fixture.process("worker-7").await;
    let mut held = Vec::new();
    for number in 40..45 {
        held.push(worker.lock(format!("invoice:{number}")).await.unwrap());
    }
    fifteen_minutes(&fixture.redlock).await;
    let waits = fixture.redlock.lock("invoice:42").wait(LONG);
    let waiting = tokio::spawn(async move { drop(waits.await) });
    let browser = Browser::start().await;

    for screen in [Screen::Narrow, Screen::Dark, Screen::Light] {
        browser.show_on(screen).await;
        browser.open_with(&site.page("?refresh=0"), "tr[data-trouble=import]").await;
        browser.wait_text(&with("data-tile", "waiting"), "1").await;
        let picture = browser.screenshot(&format!("overview-busy-{}", screen.name())).await;
        let bytes = std::fs::metadata(picture).unwrap().len();
        assert!(bytes < 200_000, "{bytes} bytes");
        browser.assert_usable().await;
    }
    let numbers = http::get(&site.page("api/overview")).await.json();
    let steps = numbers["process"]["activity"]["steps"].as_array().unwrap().clone();
    let busy = steps.iter().filter(|step| step["acquired"].as_u64() > Some(0)).count();
    assert!(busy > 50, "{busy} busy steps");
    waiting.abort();
}

/// Takes locks, and moves the clock of the dashboard's records meanwhile: one that is held here and then handed to a
/// request that waits, and some that are refused.
async fn fifteen_minutes(redlock: &Redlock) {
    // The clock must not move by itself while the servers are asked, as it would when no task is ready.
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let busy = tokio::task::spawn_blocking(move || stopped.recv().is_err());
    tokio::time::pause();
    for step in 0_u64..59 {
        let count = 6 + 5 * ((step / 4) % 5) + (step * step) % 7;
        for number in 0..count {
            let name = format!("account:{}", number % 4);
            let first = redlock.lock(&*name).wait(LONG).await.unwrap();
            let waits = redlock.lock(&*name).wait(LONG);
            let next = tokio::spawn(async move { waits.await });
            tokio::task::yield_now().await;
            std::thread::sleep(Duration::from_micros(300 * (1 + (step * 7 + number) % 9)));
            first.release().await.unwrap();
            next.await.unwrap().unwrap().release().await.unwrap();
        }
        for _ in 0..(step % 11) / 9 {
            drop(redlock.lock("invoice:42").await);
        }
        tokio::time::advance(Duration::from_secs(15)).await;
    }
    tokio::time::resume();
    drop(stop);
    assert!(busy.await.unwrap());
}
