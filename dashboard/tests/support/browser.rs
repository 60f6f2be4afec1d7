//! A browser that a test drives.

use std::{fmt, path::PathBuf, sync::OnceLock};

use fantoccini::{
    Client, ClientBuilder, Locator, actions::KeyActions, elements::Element,
    wd::WebDriverCompatibleCommand,
};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{
    capabilities::{Screen, Scripts, capabilities},
    console::complaints,
    driver::Driver,
};

/// Number of browsers at a time: each keeps a processor busy while it starts.
const BROWSERS: usize = 3;

/// A headless Chromium with a profile of its own. Its processes end when it is dropped.
pub(crate) struct Browser {
    pub(super) client: Client,
    driver: Driver,
    _permit: SemaphorePermit<'static>,
}

impl Browser {
    pub(crate) async fn start() -> Self {
        Self::with(Scripts::On).await
    }

    pub(crate) async fn with(scripts: Scripts) -> Self {
        static PLACES: OnceLock<Semaphore> = OnceLock::new();
        let places = PLACES.get_or_init(|| Semaphore::new(BROWSERS));
        let permit = places.acquire().await.expect("it is never closed");
        let driver = tokio::task::spawn_blocking(Driver::start).await.expect("chromedriver starts");
        let client = ClientBuilder::new(HttpConnector::new())
            .capabilities(capabilities())
            .connect(&driver.url())
            .await
            .expect("Chromium starts");
        let browser = Self { client, driver, _permit: permit };
        browser.show_on(Screen::Light).await;
        if scripts == Scripts::Off {
            browser
                .devtools("Emulation.setScriptExecutionDisabled", json!({ "value": true }))
                .await;
        }
        browser
    }

    /// Part of the command line of each of its processes.
    pub(crate) fn profile(&self) -> String {
        self.driver.home().display().to_string()
    }

    /// Loads an address.
    pub(crate) async fn open(&self, url: &str) {
        self.client.goto(url).await.unwrap_or_else(|error| panic!("{url} does not load: {error}"));
    }

    /// Loads an address again and again until the page has an element: a page without a refresh shows what was
    /// read from the servers before.
    pub(crate) async fn open_with(&self, url: &str, selector: &str) {
        self.until(format!("{url} has {selector}"), async || {
            self.open(url).await;
            self.has(selector).await
        })
        .await;
    }

    /// Leaves the site, so that no page of it is refreshed.
    pub(crate) async fn leave(&self) {
        self.open("about:blank").await;
    }

    /// Opens an empty tab, and hides the former one.
    pub(crate) async fn new_tab(&self) {
        let tab = self.client.new_window(true).await.expect("a tab");
        self.client.switch_to_window(tab.handle).await.expect("it is there");
    }

    /// Shows the tab with this number, in the order of opening.
    pub(crate) async fn show_tab(&self, number: usize) {
        let tabs = self.client.windows().await.expect("the tabs");
        self.client.switch_to_window(tabs[number].clone()).await.expect("it is there");
    }

    pub(crate) async fn url(&self) -> String {
        self.client.current_url().await.expect("a page is open").to_string()
    }

    pub(crate) async fn title(&self) -> String {
        self.client.title().await.expect("a page is open")
    }

    /// Sets the colour scheme and the size of the screen, for this page and the next ones.
    pub(crate) async fn show_on(&self, screen: Screen) {
        let scheme = json!({ "name": "prefers-color-scheme", "value": screen.scheme() });
        self.devtools("Emulation.setEmulatedMedia", json!({ "features": [scheme] })).await;
        let (width, height) = screen.size();
        let metrics = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": screen == Screen::Narrow,
        });
        self.devtools("Emulation.setDeviceMetricsOverride", metrics).await;
    }

    /// Keeps a picture of the whole page as an artefact, and returns its path.
    pub(crate) async fn screenshot(&self, name: &str) -> PathBuf {
        let whole = json!({ "captureBeyondViewport": true, "format": "png" });
        let answer = self.devtools("Page.captureScreenshot", whole).await;
        let data = answer["data"].as_str().expect("a picture");
        let picture = base64::Engine::decode(&base64::prelude::BASE64_STANDARD, data);
        let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let folder = target.parent().expect("the target directory").join("dashboard-screenshots");
        std::fs::create_dir_all(&folder).expect("the target directory is writable");
        let path = folder.join(format!("{name}.png"));
        std::fs::write(&path, picture.expect("base64")).expect("the directory is writable");
        path
    }

    /// Runs a script in the page, also where pages may run none.
    pub(crate) async fn script(&self, script: &str) -> Value {
        self.client.execute(script, Vec::new()).await.unwrap_or_else(|error| {
            panic!("{script}: {error}");
        })
    }

    /// Clicks on what the selector finds. Returns when the page that a click leads to is loaded.
    pub(crate) async fn click(&self, selector: &str) {
        // A refresh may replace the element between two commands.
        self.until(format!("{selector} takes a click"), async || {
            let found = self.client.find(Locator::Css(selector)).await;
            match found {
                Ok(element) => element.click().await.is_ok(),
                Err(_) => false,
            }
        })
        .await;
    }

    /// Replaces the value of a field.
    pub(crate) async fn fill(&self, selector: &str, value: &str) {
        let field = self.find(selector).await;
        field.clear().await.expect("a field");
        field.send_keys(value).await.expect("a field");
    }

    /// Chooses an option of a `select`.
    pub(crate) async fn choose(&self, selector: &str, value: &str) {
        let field = self.find(selector).await;
        field.select_by_value(value).await.unwrap_or_else(|error| panic!("{value}: {error}"));
    }

    /// Presses keys.
    pub(crate) async fn keys(&self, keys: KeyActions) {
        self.client.perform_actions(keys).await.expect("the page takes keys");
    }

    /// Waits for an element.
    pub(crate) async fn find(&self, selector: &str) -> Element {
        self.wait_for(selector).await;
        self.client
            .find(Locator::Css(selector))
            .await
            .unwrap_or_else(|error| panic!("{selector} is there no more: {error}"))
    }

    /// Asserts that the browser has logged nothing about the content security policy since the last call, and no error
    /// but responses with an expected status.
    #[track_caller]
    pub(crate) fn assert_no_errors(&self, expected: &'static [u16]) -> impl Future<Output = ()> {
        let at = std::panic::Location::caller();
        async move {
            let log = self.issue("se/log", json!({ "type": "browser" })).await;
            let complaints = complaints(&log, expected);
            assert!(complaints.is_empty(), "{at}: the browser complains: {complaints:#?}");
        }
    }

    /// Sends a command of Chromium's protocol for developer tools.
    async fn devtools(&self, command: &str, params: Value) -> Value {
        self.issue("goog/cdp/execute", json!({ "cmd": command, "params": params })).await
    }

    async fn issue(&self, path: &'static str, body: Value) -> Value {
        let answer = self.client.issue_cmd(VendorCommand { path, body }).await;
        answer.unwrap_or_else(|error| panic!("{path}: {error}"))
    }
}

impl fmt::Debug for Browser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Browser").field("driver", &self.driver).finish_non_exhaustive()
    }
}

/// A command of chromedriver that the standard does not have.
#[derive(Debug)]
struct VendorCommand {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for VendorCommand {
    fn endpoint(
        &self,
        base: &url::Url,
        session: Option<&str>,
    ) -> Result<url::Url, url::ParseError> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.path))
    }

    fn method_and_body(&self, _: &url::Url) -> (::http::Method, Option<String>) {
        (::http::Method::POST, Some(self.body.to_string()))
    }
}
