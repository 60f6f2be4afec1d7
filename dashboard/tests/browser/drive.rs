//! The tests' own means: the browser, its log, and its end.

use std::process::Command;

use axum::{Router, http::header::CONTENT_SECURITY_POLICY, response::Html, routing::get};

use crate::harness::{Browser, Look, Quiet, Scripts, Served, http};

const GOOD: &str = r#"<!DOCTYPE html><html lang="en"><head>
<meta name="viewport" content="width=device-width"><title>Good</title></head>
<body><h1 id="top">Good</h1><noscript><p id="plain">no scripts</p></noscript>
<form method="get" action="next"><label for="q">Name</label><input id="q" name="q">
<select id="refresh" name="refresh"><option value="0">off</option><option value="5">5 s</option></select>
<button id="go" type="submit">Go</button></form></body></html>"#;

const BAD: &str = r#"<!DOCTYPE html><html lang="en"><head><title>Bad</title></head>
<body><h1 style="color: red">Bad</h1></body></html>"#;

async fn site() -> Served {
    let policy = [(CONTENT_SECURITY_POLICY, "default-src 'none'; form-action 'self'")];
    let bad = policy.clone();
    let router = Router::new()
        .route("/good", get(async move || (policy, Html(GOOD))))
        .route("/next", get(async || Html(GOOD.replace("Good", "Next"))))
        .route(
            "/script",
            get(async || Html(format!("{GOOD}<script>document.title = 'ran'</script>"))),
        )
        .route("/bad", get(async move || (bad, Html(BAD))));
    Served::router(router).await
}

#[tokio::test]
async fn drives_a_page() {
    let site = site().await;
    let browser = Browser::start().await;
    browser.open(&site.at("/good")).await;
    assert_eq!(browser.title().await, "Good");
    assert_eq!(browser.text("h1").await.as_deref(), Some("Good"));
    assert_eq!(browser.count("#plain").await, 0);
    browser.fill("#q", "a b").await;
    browser.choose("#refresh", "5").await;
    browser.click("#go").await;
    browser.wait_url("/next?q=a+b&refresh=5").await;
    assert_eq!(browser.title().await, "Next");
    browser.is_quiet(Quiet::But(&[404])).await;
}

#[tokio::test]
async fn policy_violations_are_found() {
    let site = site().await;
    let browser = Browser::start().await;
    browser.open(&site.at("/bad")).await;
    let verdict = tokio::spawn(async move { browser.is_quiet(Quiet::But(&[404])).await }).await;
    let panic = verdict.expect_err("it complains").into_panic();
    let said = panic.downcast_ref::<String>().expect("words");
    assert!(said.contains("Content Security Policy"), "{said}");
}

#[tokio::test]
async fn missing_files_are_found() {
    let site = site().await;
    let browser = Browser::start().await;
    browser.open(&site.at("/none")).await;
    let verdict = tokio::spawn(async move { browser.is_quiet(Quiet::Wholly).await }).await;
    let panic = verdict.expect_err("it complains").into_panic();
    let said = panic.downcast_ref::<String>().expect("words");
    assert!(said.contains("404"), "{said}");
}

#[tokio::test]
async fn axe_finds_what_is_wrong() {
    let site = site().await;
    let browser = Browser::start().await;
    browser.open(&site.at("/next")).await;
    let harmless = browser.axe_violations().await;
    let unlabelled = "document.querySelectorAll('label').forEach(label => label.remove())";
    browser.script(unlabelled).await;
    let found = browser.axe_violations().await;
    let has_label = |faults: &[String]| faults.iter().any(|fault| fault.starts_with("label: "));
    assert!(!has_label(&harmless) && has_label(&found), "{harmless:#?} {found:#?}");
}

#[tokio::test]
async fn scripts_can_be_off() {
    let site = site().await;
    let browser = Browser::with(Scripts::Off).await;
    browser.open(&site.at("/script")).await;
    browser.wait_for("#plain").await;
    assert_eq!(browser.title().await, "Good");
    browser.click("#go").await;
    browser.wait_url("/next?q=&refresh=0").await;
    browser.wait_text("h1", "Next").await;
}

#[tokio::test]
async fn looks_can_be_chosen() {
    let site = site().await;
    let browser = Browser::start().await;
    let state = "return [matchMedia('(prefers-color-scheme: dark)').matches, innerWidth]";
    for (look, expected) in [
        (Look::Dark, serde_json::json!([true, 1_280])),
        (Look::Narrow, serde_json::json!([false, 360])),
        (Look::Light, serde_json::json!([false, 1_280])),
    ] {
        browser.look(look).await;
        browser.open(&site.at("/good")).await;
        assert_eq!(browser.script(state).await, expected);
    }
    let picture = std::fs::read(browser.screenshot("harness").await).unwrap();
    assert!(picture.starts_with(b"\x89PNG"));
}

/// The number of processes whose command line has these words. Those that have ended have none.
fn processes(words: &str) -> usize {
    let listed = Command::new("ps").args(["-A", "-o", "args"]).output().expect("ps runs");
    String::from_utf8_lossy(&listed.stdout).lines().filter(|line| line.contains(words)).count()
}

#[tokio::test]
async fn no_process_is_left_over() {
    let site = site().await;
    let browser = Browser::start().await;
    browser.open(&site.at("/good")).await;
    let profile = browser.profile();
    assert!(processes(&profile) > 3, "Chromium has several processes");
    let ended = tokio::spawn(async move {
        let _browser = browser;
        panic!("a test fails");
    });
    assert!(ended.await.is_err());
    crate::support::eventually("all processes have ended", || processes(&profile) == 0);
    assert!(!std::path::Path::new(&profile).exists());
}

#[tokio::test]
async fn requests_are_sent_plainly() {
    let site = site().await;
    let answer = http::get(&site.at("/good")).await;
    assert_eq!((answer.status.as_u16(), answer.body.as_str()), (200, GOOD));
    assert!(answer.header("content-security-policy").is_some());
    assert_eq!(http::post(&site.at("/good"), &[], "a=b").await.status, 405);
}
