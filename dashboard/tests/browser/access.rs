//! Who may see and do what, and what every answer has.

use tower_redlock_dashboard::{Access, Action, Actions, BasicAuth, Dashboard};

use axum::{Router, response::Html, routing::get};

use crate::{
    fixture::{Fixture, Site},
    web::{Browser, Served, html::assert_strict, http},
};

/// The addresses of every page and file, and of the questions before actions, parted by spaces. `?` is the first page.
const PAGES: &str = "? locks lock?name=a nodes jobs job?name=a leaders once once?key=a events api/overview api/locks \
    api/lock?name=a api/nodes api/jobs api/job?name=a api/leaders api/once?key=a api/events style.css live.js icon.svg \
    break?name=a pause?name=a stop?name=a none api/none";

/// Every action, with the parameter that names what it is about.
pub(crate) const ACTIONS: [(&str, &str); 7] = [
    ("break", "name"),
    ("trigger", "name"),
    ("stop", "name"),
    ("pause", "name"),
    ("resume", "name"),
    ("done", "key"),
    ("forget", "key"),
];

#[tokio::test(flavor = "multi_thread")]
async fn closed_until_configured() {
    let fixture = Fixture::new().await;
    let site = Site::of(Dashboard::new(fixture.redlock.clone())).await;
    for page in PAGES.split(' ').chain(["api/events/stream"]) {
        let answer = http::get(&site.page(page)).await;
        assert_eq!(answer.status, 403, "{page}");
        assert!(answer.body.contains(".access("), "{page} says which line to add");
        assert_strict(page, &answer.body);
    }
    for (action, param) in ACTIONS {
        let answer = http::post(&site.page(action), &[], &format!("{param}=a")).await;
        assert_eq!(answer.status, 403, "{action}");
    }
    let browser = Browser::start().await;
    browser.open(&site.page("")).await;
    browser.wait_text("main", ".access(").await;
    browser.screenshot("unconfigured").await;
    browser.assert_usable().await;
    // The service itself, which has none, is not asked for an icon.
    browser.assert_no_errors(&[403]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_see_no_button() {
    let fixture = Fixture::new().await;
    let held = fixture.process("worker-7").await.lock("invoice:42").await.unwrap();
    let site = fixture.serve_to(|_: &::http::request::Parts| Access::ReadOnly.by("bob")).await;
    let browser = Browser::start().await;
    for page in ["", "lock?name=invoice:42", "jobs", "job?name=a", "once?key=a", "events"] {
        browser.open(&site.page(page)).await;
        browser.wait_for("main section, main form").await;
        assert!(!browser.has("[data-action], form[method=post]").await, "{page}");
        assert!(browser.body().await.contains("bob"), "{page}");
    }
    browser.assert_no_errors(&[]).await;
    for (action, param) in ACTIONS {
        let form = format!("{param}=invoice:42");
        assert_eq!(
            http::get(&site.page(&format!("{action}?{form}"))).await.status,
            403,
            "{action}"
        );
        let answer = http::post(&site.page(action), &[], &form).await;
        assert_eq!(answer.status, 403, "{action}");
        assert_strict(action, &answer.body);
    }
    assert!(held.is_valid());
}

#[tokio::test(flavor = "multi_thread")]
async fn only_named_actions_are_offered() {
    let fixture = Fixture::new().await;
    let held = fixture.process("worker-7").await.lock("invoice:42").await.unwrap();
    let pauses = Access::Only(Actions::from_iter([Action::PauseJob, Action::ResumeJob]));
    let site = fixture.serve_to(move |_: &::http::request::Parts| pauses.by("eve")).await;
    let browser = Browser::start().await;
    browser.open(&site.page("lock?name=invoice:42")).await;
    browser.wait_text("#holder", "worker-7").await;
    assert!(!browser.has("[data-action]").await);
    browser.open(&site.page("job?name=report")).await;
    browser.wait_for("a[data-action=pause]").await;
    assert_eq!(browser.count("[data-action]").await, 1);
    browser.assert_no_errors(&[]).await;
    for (action, param) in ACTIONS {
        let answer = http::post(&site.page(action), &[], &format!("{param}=a")).await;
        let expected = if matches!(action, "pause" | "resume") { 303 } else { 403 };
        assert_eq!(answer.status, expected, "{action}");
    }
    drop(held);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_sites_can_do_nothing() {
    let fixture = Fixture::new().await;
    let held = fixture.process("worker-7").await.lock("invoice:42").await.unwrap();
    let site = fixture.serve().await;
    // As a page of another site would send it, with all that the real form has.
    let form = http::get(&site.page("break?name=invoice:42")).await.body;
    let form = &form[form.find("<form class=\"confirm\"").unwrap()..];
    let form = &form[..form.find("</form>").unwrap() + "</form>".len()];
    let form = form.replace("action=\"break\"", &format!("action=\"{}\"", site.page("break")));
    let evil = Html(format!("<!DOCTYPE html><title>evil</title>{form}"));
    let evil = Served::router(Router::new().route("/", get(async move || evil))).await;
    let browser = Browser::start().await;
    browser.open(evil.url()).await;
    browser.click("#confirm").await;
    browser.wait_text("h1", "Forbidden").await;
    assert_eq!(browser.url().await, site.page("break"));
    browser.assert_no_errors(&[403, 404]).await;
    assert_eq!(fixture.servers[0].keys("redlock:lock:*").len(), 1);

    let host = site.origin().trim_start_matches("http://").to_owned();
    let refused: [&[(&str, &str)]; 5] = [
        &[("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "same-site")],
        &[("sec-fetch-site", "cross-site"), ("origin", site.origin())],
        &[("origin", "https://evil.example")],
        &[("origin", "null")],
    ];
    for headers in refused {
        for (action, param) in ACTIONS {
            let answer =
                http::post(&site.page(action), headers, &format!("{param}=invoice:42")).await;
            assert_eq!(answer.status, 403, "{action} {headers:?}");
        }
    }
    let image = [("sec-fetch-site", "cross-site"), ("sec-fetch-dest", "image")];
    let loaded = http::send(::http::Method::GET, &site.page("api/once?key=a"), &image, "").await;
    assert_eq!(loaded.status, 403);
    for headers in [[("sec-fetch-site", "same-origin")], [("origin", site.origin())]] {
        let answer = http::post(&site.page("pause"), &headers, "name=report").await;
        assert_eq!(answer.status, 303, "{headers:?} to {host}");
    }
    assert!(held.is_valid());
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_have_safe_headers() {
    let fixture = Fixture::new().await;
    let site = fixture.serve().await;
    for page in PAGES.split(' ') {
        let answer = http::get(&site.page(page)).await;
        let status = if page.contains("none") { 404 } else { 200 };
        assert_eq!(answer.status, status, "{page}");
        let policy = answer.header("content-security-policy").expect("a policy");
        for part in [
            "default-src 'none'",
            "frame-ancestors 'none'",
            "form-action 'self'",
            "base-uri 'none'",
        ] {
            assert!(policy.contains(part), "{page}: {policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains('*'), "{page}: {policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{page}");
        // Only pages with a form send their origin, and only to it.
        let referrer = answer.header("referrer-policy");
        let form = answer.body.contains("method=\"post\"");
        assert_eq!(referrer, Some(if form { "same-origin" } else { "no-referrer" }), "{page}");
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{page}");
        assert_eq!(answer.header("set-cookie"), None, "{page}");
        let kind = answer.header("content-type").unwrap();
        match page {
            "style.css" => assert!(kind.starts_with("text/css"), "{kind}"),
            "live.js" => assert!(kind.starts_with("text/javascript"), "{kind}"),
            "icon.svg" => assert_eq!(kind, "image/svg+xml"),
            page if page.starts_with("api/") && status == 200 => drop(answer.json()),
            page => assert_strict(page, &answer.body),
        }
    }
    let both = http::get(&site.page("style.css")).await.body.len()
        + http::get(&site.page("live.js")).await.body.len();
    assert!(both <= 40_000, "{both} bytes of style and script");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_methods_are_refused() {
    let fixture = Fixture::new().await;
    let site = fixture.serve().await;
    for (method, page, allowed) in [
        ("POST", "nodes", "GET, HEAD"),
        ("DELETE", "break", "GET, HEAD, POST"),
        ("PUT", "", "GET, HEAD"),
    ] {
        let method: ::http::Method = method.parse().unwrap();
        let answer = http::send(method, &site.page(page), &[], "").await;
        assert_eq!(
            (answer.status.as_u16(), answer.header("allow")),
            (405, Some(allowed)),
            "{page}"
        );
        assert_strict(page, &answer.body);
    }
    let asking = BasicAuth::new("locks").user("ada", "s-cret", Access::ReadOnly);
    let asked = http::get(&fixture.serve_to(asking).await.page("")).await;
    assert_eq!(asked.status, 401);
    assert_strict("401", &asked.body);
    let head = http::send(::http::Method::HEAD, &site.page("nodes"), &[], "").await;
    assert_eq!((head.status.as_u16(), head.body.as_str()), (200, ""));
    for page in ["lock", "job", "break", "once?none=1", "api/lock", "api/once", "../../etc/passwd"]
    {
        let answer = http::get(&site.page(page)).await;
        let expected: &[u16] = if page.starts_with("once") { &[200] } else { &[404] };
        assert!(expected.contains(&answer.status.as_u16()), "{page}: {}", answer.status);
    }
}
