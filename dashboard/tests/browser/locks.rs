//! Locks as they are taken and released, searched and paged.

use crate::{
    fixture::{Fixture, served, with},
    web::{html::assert_strict, http},
};

#[tokio::test(flavor = "multi_thread")]
async fn locks_appear_and_go() {
    let (fixture, site, browser) = served().await;
    let other = fixture.process("worker-7").await;
    browser.open(&site.page("locks")).await;
    browser.choose("#refresh", "1").await;
    assert!(!browser.has("tr[data-lock]").await);
    // Without another load of the page: this goes with it.
    browser.script("document.body.dataset.same = 'page'").await;
    let invoice = other.lock("invoice:42").await.unwrap();
    let row = with("data-lock", "invoice:42");
    browser.wait_for(&row).await;
    browser.wait_text(&row, "worker-7").await;
    browser.wait_text(&row, &invoice.fencing_token().to_string()).await;
    browser.wait_text(&row, "3/3").await;
    assert!(!browser.has(&format!("{row}.minority")).await);
    invoice.release().await.unwrap();
    browser.wait_gone(&row).await;
    assert!(browser.has("body[data-same=page]").await);
    browser.assert_no_errors(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_requests_are_shown() {
    let (fixture, site, browser) = served().await;
    let other = fixture.process("worker-7").await;
    let held = other.lock("invoice:42").await.unwrap();
    let here = fixture.redlock.clone();
    let waiting =
        tokio::spawn(async move { here.lock("invoice:42").wait(crate::support::LONG).await });
    browser.open(&site.page("locks?refresh=1")).await;
    let row = format!("section[data-from=process] {}", with("data-waiting", "invoice:42"));
    browser.wait_for(&row).await;
    let lock = format!("section[data-from=fleet] {}", with("data-lock", "invoice:42"));
    browser.wait_text(&lock, "worker-7").await;
    held.release().await.unwrap();
    let taken = waiting.await.unwrap().unwrap();
    browser.wait_gone(&row).await;
    browser.wait_text(&lock, "web-1").await;
    browser.open(&site.page("events")).await;
    browser.wait_text("li[data-event]", "invoice:42").await;
    drop(taken);
    browser.assert_no_errors(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slot_is_reached_from_the_waiting_line() {
    let (fixture, site, browser) = served().await;
    let held = fixture.process("worker-7").await.lock("export").slots(1).await.unwrap();
    let here = fixture.redlock.lock("export").slots(1).wait(crate::support::LONG);
    let waiting = tokio::spawn(async move { here.await });
    let line = with("data-waiting", "slot:*1:export");
    browser.open_with(&site.page("locks"), &line).await;
    browser.wait_text(&line, "export, any slot of 1").await;

    browser.click(&format!("{line} a")).await;
    browser.wait_text(".subject", "export, any slot of 1").await;
    let pages = [site.page("locks"), browser.url().await];
    browser.click("#slots").await;
    let slot = with("data-lock", "slot:0:export");
    browser.wait_text(&slot, "export, slot 0").await;
    browser.wait_text(&slot, "worker-7").await;
    browser.click(&format!("{slot} a")).await;
    browser.wait_text(".subject", "export, slot 0").await;
    browser.wait_text("#holder", "worker-7").await;

    for page in pages.into_iter().chain([browser.url().await]) {
        assert_strict(&page, &http::get(&page).await.body);
    }
    held.release().await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().slot(), Some(0));
    browser.assert_no_errors(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leftovers_are_marked() {
    let (fixture, site, browser) = served().await;
    fixture.store(1, "invoice:left", "crashed", 7);
    let held = fixture.process("worker-7").await.lock("invoice:held").await.unwrap();
    let row = with("data-lock", "invoice:left");
    browser.open_with(&site.page("locks"), &row).await;
    browser.wait_text(&format!("tr.minority{row}"), "crashed").await;
    browser.wait_text(&row, "1/3").await;
    assert!(!browser.has(&format!("tr.minority{}", with("data-lock", "invoice:held"))).await);
    browser.click(&format!("{row} a")).await;
    browser.wait_url("/lock?name=invoice%3Aleft").await;
    let page = browser.body().await;
    assert!(page.contains("Not held"), "{page}");
    // Each node has its row.
    assert_eq!(browser.count("#holder tbody tr").await, 3);
    drop(held);
    browser.assert_no_errors(&[]).await;
}

/// A browser opens six connections to a server at most.
#[tokio::test(flavor = "multi_thread")]
async fn many_tabs_follow_events() {
    let (fixture, site, browser) = served().await;
    for number in 0..9 {
        if number > 0 {
            browser.new_tab().await;
        }
        browser.open(&site.page("events")).await;
        browser.wait_for("#event-list").await;
    }
    // The first one missed nothing while it was hidden.
    let other = fixture.redlock.lock("invoice:42").wait(crate::support::LONG).await.unwrap();
    let waits = fixture.redlock.lock("invoice:42");
    assert!(waits.await.is_err());
    browser.wait_text("li[data-event]", "invoice:42").await;
    browser.show_tab(0).await;
    browser.wait_text("li[data-event]", "invoice:42").await;
    drop(other);
    browser.assert_no_errors(&[]).await;
}

const HOSTILE: &str =
    "<script>document.title='ran'</script>\"'><img src=x onerror=\"document.title='ran'\">&lt;";

#[tokio::test(flavor = "multi_thread")]
async fn names_are_text() {
    let (fixture, site, browser) = served().await;
    let other = fixture.process("<b>mallory</b>").await;
    let held = other.lock(HOSTILE).await.unwrap();
    browser.open_with(&site.page("locks"), "tr[data-lock]").await;
    browser.wait_text("tr[data-lock] th", HOSTILE).await;
    browser.wait_text("tr[data-lock]", "<b>mallory</b>").await;
    browser.click("tr[data-lock] a").await;
    browser.wait_text(".subject", HOSTILE).await;
    browser.wait_text("#holder", "<b>mallory</b>").await;
    browser.click("a[data-action=break]").await;
    browser.wait_for("#confirm").await;
    browser.wait_text("body", HOSTILE).await;
    let name = browser.attributes("form.confirm input[name=name]", "value").await;
    assert_eq!(name, [HOSTILE]);
    let url = browser.url().await;
    for page in [url, site.page("locks"), site.page(&format!("locks?q={}", query(HOSTILE)))] {
        let answer = http::get(&page).await;
        assert_strict(&page, &answer.body);
        assert!(!answer.body.contains("<img") && !answer.body.contains("<b>mallory"), "{page}");
    }
    assert_ne!(browser.title().await, "ran");
    browser.assert_no_errors(&[]).await;
    drop(held);
}

fn query(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn many_locks_are_paged() {
    let (fixture, site, browser) = served().await;
    fixture.store_many(450);
    browser.open_with(&site.page("locks"), "tr[data-lock]").await;
    assert_eq!(browser.count("tr[data-lock]").await, 200);
    browser.click("a[rel=next]").await;
    browser.wait_for(&with("data-lock", "lock:00200")).await;
    browser.click("a[rel=next]").await;
    browser.wait_for(&with("data-lock", "lock:00449")).await;
    assert_eq!(browser.count("tr[data-lock]").await, 50);
    assert!(!browser.has("a[rel=next]").await && browser.has("a[rel=prev]").await);
    browser.fill("input[name=q]", "LOCK:0012").await;
    browser.click("form[role=search] button").await;
    browser.wait_gone(&with("data-lock", "lock:00449")).await;
    browser.wait_for(&with("data-lock", "lock:00123")).await;
    assert_eq!(browser.count("tr[data-lock]").await, 10);
    // Owners are searched as well.
    browser.open(&site.page("locks?q=worker-6")).await;
    assert_eq!(browser.count("tr[data-lock]").await, 64);
    browser.assert_no_errors(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_of_one_process_count_apart() {
    let fixture = Fixture::new().await;
    // An attempt of a process beside its lock, as on a name that it asked for twice.
    for (server, token) in [(0, 4), (1, 4), (2, 5)] {
        fixture.store(server, "invoice:42", "worker-7", token);
    }
    let site = fixture.serve().await;
    let lock = http::get(&site.page("api/lock?name=invoice:42")).await.json();
    assert_eq!(lock["fleet"]["holder"]["token"], 4);
    assert_eq!(lock["fleet"]["holder"]["kept"], 2, "{lock}");
}
