//! Tests of the browser that the tests drive: what it finds, and that it leaves nothing over.

use std::process::Command;

use axum::{Router, http::header::CONTENT_SECURITY_POLICY, response::Html, routing::get};

use crate::web::{Browser, Screen, Scripts, Served};

const GOOD: &str = r#"<!DOCTYPE html><html lang="en"><head>
<meta name="viewport" content="width=device-width"><title>Good</title></head>
<body><main><h1 id="top">Good</h1><noscript><p id="plain">no scripts</p></noscript>
<form method="get" action="next"><label for="q">Name</label><input id="q" name="q">
<button id="go" type="submit">Go</button></form></main></body></html>"#;

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

/// Returns the text of the panic of a task.
async fn failure(test: impl Future<Output = ()> + Send + 'static) -> String {
    let panic = tokio::spawn(test).await.expect_err("the assertion fails").into_panic();
    *panic.downcast::<String>().expect("the panic has a text")
}

#[tokio::test]
async fn errors_in_the_log_are_found() {
    let site = site().await;
    for (page, expected, words) in
        [("/bad", &[404][..], "Content Security Policy"), ("/none", &[], "404")]
    {
        let browser = Browser::start().await;
        browser.open(&site.at(page)).await;
        let failure = failure(async move { browser.assert_no_errors(expected).await }).await;
        assert!(failure.contains(words), "{page}: {failure}");
    }
}

/// Changes to a page, and the rule of axe-core that each violates. The check of HTML has no such rule.
const BARRIERS: [(&str, &str); 12] = [
    ("document.querySelectorAll('label').forEach(label => label.remove())", "label"),
    ("document.querySelector('#go').textContent = ''", "button-name"),
    ("document.querySelector('h1').style.color = '#bbb'", "color-contrast"),
    ("document.querySelector('h1').textContent = ''", "empty-heading"),
    ("document.querySelector('h1').remove()", "page-has-heading-one"),
    ("document.querySelector('#q').tabIndex = 3", "tabindex"),
    ("document.querySelector('form').ariaHidden = 'true'", "aria-hidden-focus"),
    ("add('<h4>Deep</h4>')", "heading-order"),
    ("add('<ul><div>a</div></ul>')", "list"),
    ("add('<a href=\"./\"> </a>')", "link-name"),
    ("add('<button type=\"button\">a <a href=\"./\">b</a></button>')", "nested-interactive"),
    ("add('<nav><p>a</p></nav><nav><p>b</p></nav>')", "landmark-unique"),
];

#[tokio::test]
async fn axe_finds_each_barrier() {
    let site = site().await;
    let browser = Browser::start().await;
    browser.open(&site.at("/next")).await;
    browser.assert_usable().await;
    for (change, rule) in BARRIERS {
        browser.open(&site.at("/next")).await;
        let add = "const add = html => document.querySelector('form').insertAdjacentHTML('afterend', html);";
        browser.script(&format!("{add}{change}")).await;
        let faults = browser.axe_violations().await;
        let is_found = faults.iter().any(|fault| fault.starts_with(&format!("{rule}: ")));
        assert!(is_found, "{change} violates {rule}: {faults:#?}");
    }
}

#[tokio::test]
async fn wide_pages_are_found() {
    let site = site().await;
    let browser = Browser::start().await;
    browser.open(&site.at("/next")).await;
    browser.script("document.querySelector('h1').style.width = '2000px'").await;
    let failure = failure(async move { browser.assert_usable().await }).await;
    assert!(failure.contains("wider than the screen"), "{failure}");
}

#[tokio::test]
async fn screens_and_scripts_can_be_chosen() {
    let site = site().await;
    let browser = Browser::start().await;
    let state = "return [matchMedia('(prefers-color-scheme: dark)').matches, innerWidth]";
    for (screen, expected) in [
        (Screen::Dark, serde_json::json!([true, 1_280])),
        (Screen::Narrow, serde_json::json!([false, 360])),
        (Screen::Light, serde_json::json!([false, 1_280])),
    ] {
        browser.show_on(screen).await;
        browser.open(&site.at("/script")).await;
        assert_eq!(browser.script(state).await, expected);
        assert_eq!(browser.title().await, "ran");
    }
    let picture = std::fs::read(browser.screenshot("drive").await).unwrap();
    assert!(picture.starts_with(b"\x89PNG"), "a screenshot is a PNG");
    drop(browser);

    let browser = Browser::with(Scripts::Off).await;
    browser.open(&site.at("/script")).await;
    browser.wait_for("#plain").await;
    assert_eq!(browser.title().await, "Good");
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
