//! The same pages at any mount point, behind a proxy, and without JavaScript.

use axum::{
    Router, ServiceExt,
    body::Body,
    extract::{Request, State},
    response::Response,
};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
    service::TowerToHyperService,
};
use tokio::net::TcpListener;
use tower::Layer as _;
use tower_http::normalize_path::NormalizePathLayer;

use crate::{
    fixture::{Fixture, MOUNT, with},
    web::{Browser, Scripts, Served, http},
};

/// Serves a dashboard at `/` by hyper alone. Returns the origin.
async fn alone(fixture: &Fixture) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let dashboard = fixture.dashboard();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let service = TowerToHyperService::new(dashboard.clone());
            let http = hyper::server::conn::http1::Builder::new();
            tokio::spawn(http.serve_connection(TokioIo::new(stream), service));
        }
    });
    origin
}

/// A proxy that strips `/ops/redlock` and sends the rest to an origin.
async fn proxy(origin: String) -> Served {
    type Upstream = (Client<HttpConnector, Body>, String);

    async fn forward(State((client, origin)): State<Upstream>, mut request: Request) -> Response {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let path = path.strip_prefix("/ops/redlock").unwrap_or(path);
        *request.uri_mut() = format!("{origin}{path}").parse().unwrap();
        client.request(request).await.unwrap().map(Body::new)
    }

    let client: Client<HttpConnector, Body> = Client::builder(TokioExecutor::new()).build_http();
    let router = Router::new().route("/ops/redlock/{*rest}", axum::routing::any(forward));
    let router = router.route("/ops/redlock/", axum::routing::any(forward));
    Served::router(router.with_state((client, origin))).await
}

/// Visits every page by its links, and breaks a lock.
async fn visit(fixture: &Fixture, browser: &Browser, first: &str) {
    fixture.store(0, "invoice:42", "worker-7", 3);
    fixture.store(1, "invoice:42", "worker-7", 3);
    let row = with("data-lock", "invoice:42");
    browser.open_with(&format!("{first}locks"), &row).await;
    let pages = browser.attributes("nav[aria-label=Pages] a", "href").await;
    assert_eq!(pages.len(), 7);
    for page in &pages {
        browser.click(&format!("nav[aria-label=Pages] a[href=\"{page}\"]")).await;
        // Below a normalizing layer, the address of the first page has a parameter.
        if page != "./" {
            browser.wait_url(page).await;
        }
        assert!(browser.url().await.starts_with(first), "{page} is at {}", browser.url().await);
        browser.wait_for(&format!("nav [aria-current=page][href=\"{page}\"]")).await;
    }
    assert_eq!(browser.text("nav [aria-current=page]").await.as_deref(), Some("Events"));
    let style = "return getComputedStyle(document.querySelector('nav ul')).listStyleType";
    assert_eq!(browser.script(style).await, "none", "the style sheet is found");
    browser.open_with(&format!("{first}locks"), &row).await;
    browser.click(&format!("{row} a")).await;
    browser.click("a[data-action=break]").await;
    browser.click("#confirm").await;
    browser.wait_for("[role=status].notice").await;
    assert!(browser.url().await.starts_with(first), "{}", browser.url().await);
    browser.wait_text("#holder", "No process holds it").await;
    browser.assert_no_errors(&[]).await;
}

/// At the root of a server, below a path of a router, and behind a proxy that strips a path.
#[tokio::test(flavor = "multi_thread")]
async fn works_at_any_mount_point() {
    let (fixture, browser) = (Fixture::new().await, Browser::start().await);
    let origin = alone(&fixture).await;
    let router = Router::new().nest_service("/a/b", fixture.dashboard());
    let (router, proxy) = (Served::router(router).await, proxy(origin.clone()).await);
    for first in [format!("{origin}/"), router.at("/a/b/"), proxy.at("/ops/redlock/")] {
        visit(&fixture, &browser, &first).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mount_point_leads_to_slash() {
    let fixture = Fixture::new().await;
    let site = fixture.serve().await;
    let bare = format!("{}{MOUNT}?q=a%20b", site.origin());
    let answer = http::get(&bare).await;
    assert!(answer.status.is_redirection(), "{}", answer.status);
    assert!(!answer.header("location").unwrap().starts_with('/'), "{answer:?}");
    let browser = Browser::start().await;
    browser.open(&bare).await;
    browser.wait_url("/admin/locks/?q=a%20b").await;
    browser.wait_for("#state .tile").await;
    // The routes beside it are the service's own.
    assert_eq!(http::get(site.origin()).await.body, "the service itself");
}

/// A layer takes the slash away before the router sees it.
#[tokio::test(flavor = "multi_thread")]
async fn below_a_normalizing_layer() {
    let fixture = Fixture::new().await;
    let router = Router::new().nest_service("/a/b", fixture.dashboard());
    let normalized = NormalizePathLayer::trim_trailing_slash().layer(router);
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let service = ServiceExt::<Request>::into_make_service(normalized);
    tokio::spawn(async move { axum::serve(listener, service).await });
    let browser = Browser::start().await;
    for first in ["/a/b/", "/a/b", "/a/b?q=x", "/a/b/?q=x"] {
        browser.open(&format!("{origin}{first}")).await;
        browser.wait_for("nav [aria-current=page]").await;
        let url = browser.url().await;
        let query = if first.ends_with("q=x") { "&q=x" } else { "" };
        assert_eq!(url, format!("{origin}/a/b/?in-folder{query}"), "{first}");
    }
    visit(&fixture, &browser, &format!("{origin}/a/b/")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_works_without_scripts() {
    let fixture = Fixture::new().await;
    let other = fixture.process("worker-7").await;
    let site = fixture.serve().await;
    let browser = Browser::with(Scripts::Off).await;
    browser.open(&site.page("locks")).await;
    browser.wait_for("#locks, section[data-from=fleet]").await;
    browser.choose("#refresh", "1").await;
    browser.click("form.refresh button").await;
    browser.wait_url("refresh=1").await;
    let held = other.lock("invoice:42").await.unwrap();
    let row = with("data-lock", "invoice:42");
    browser.wait_text(&row, "worker-7").await;
    browser.screenshot("without-scripts").await;
    held.release().await.unwrap();
    browser.wait_gone(&row).await;
    // Without refreshing: an element that was found must still be there when it is clicked.
    fixture.store(0, "invoice:43", "crashed", 4);
    let row = with("data-lock", "invoice:43");
    browser.open_with(&site.page("locks?q=invoice:43&refresh=0"), &row).await;
    browser.click(&format!("{} a", with("data-lock", "invoice:43"))).await;
    browser.click("a[data-action=break]").await;
    browser.click("#confirm").await;
    browser.wait_text("[role=status].notice", "taken away").await;
    browser.open(&site.page("events")).await;
    browser.wait_text("li[data-event=break]", "invoice:43, by ada").await;
    for page in ["", "nodes", "jobs", "leaders", "once?key=a", "job?name=a"] {
        browser.open(&site.page(page)).await;
        browser.wait_for("main section[data-from]").await;
    }
    browser.assert_no_errors(&[]).await;
}
