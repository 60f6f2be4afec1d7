//! What the dashboard's tests share: a browser, an HTTP client, sites to look at, and a strict check of
//! HTML.
//!
//! - [`Browser`]: a headless Chromium with a profile of its own, driven through chromedriver.
//! - [`http`]: plain requests, for what a browser does not send or show.
//! - `axe`: the rules of axe-core, in the browser.
//! - [`html`]: finds what is wrong with a page's markup.
//! - [`Served`]: a router or a service on a port of 127.0.0.1.

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
    capabilities::{Look, Scripts},
    console::Quiet,
    served::Served,
};

/// Time for which a wait may take before it counts as hanging: a browser starts within it on a machine that
/// compiles meanwhile.
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
