//! A browser, an HTTP client, and a check of HTML.
//!
//! - [`Browser`]: a headless Chromium with a profile of its own, driven through chromedriver.
//! - `axe`: the rules of axe-core, in the browser.
//! - [`http`]: requests that a browser does not send, and responses that it does not show.
//! - [`html`]: finds what is wrong with a page's markup.
//! - [`Served`]: a router on a port of 127.0.0.1.

mod axe;
mod browser;
mod capabilities;
mod console;
mod driver;
pub(crate) mod html;
pub(crate) mod http;
mod page;
mod served;

pub(crate) use self::{
    browser::Browser,
    capabilities::{Screen, Scripts},
    served::Served,
};

/// Time after which a wait counts as hanging: a browser starts within it on a machine that compiles meanwhile.
pub(crate) const HANG_GUARD: std::time::Duration = std::time::Duration::from_secs(30);

/// Waits until the condition holds. Panics if it does not within [`HANG_GUARD`].
#[track_caller]
pub(crate) fn eventually(
    what: &str,
    mut condition: impl AsyncFnMut() -> bool,
) -> impl Future<Output = ()> {
    let at = std::panic::Location::caller();
    async move {
        let started = std::time::Instant::now();
        while !condition().await {
            assert!(started.elapsed() < HANG_GUARD, "{at}: still waiting: {what}");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }
}
