//! What is on the page now, and waiting until something is.

use std::{
    panic::Location,
    time::{Duration, Instant},
};

use super::{Browser, HANG_GUARD};

/// Interval between looks at the page.
const STEP: Duration = Duration::from_millis(50);

impl Browser {
    /// The text of the first element that the selector finds, as a viewer sees it.
    pub(crate) async fn text(&self, selector: &str) -> Option<String> {
        let found = self.texts(selector).await;
        found.into_iter().next()
    }

    /// The texts of all elements that the selector finds, in the order of the document.
    pub(crate) async fn texts(&self, selector: &str) -> Vec<String> {
        let script =
            "return [...document.querySelectorAll(arguments[0])].map(found => found.innerText)";
        self.strings(script, selector).await
    }

    /// An attribute of all elements that the selector finds; of those that have it.
    pub(crate) async fn attributes(&self, selector: &str, name: &str) -> Vec<String> {
        let script = format!(
            "return [...document.querySelectorAll(arguments[0])].map(found => found.getAttribute('{name}')) \
             .filter(value => value !== null)"
        );
        self.strings(&script, selector).await
    }

    async fn strings(&self, script: &str, selector: &str) -> Vec<String> {
        // Between two pages there is no document.
        let found = self.client.execute(script, vec![selector.into()]).await.unwrap_or_default();
        let found = found.as_array().cloned().unwrap_or_default();
        found.iter().map(|text| text.as_str().unwrap_or_default().to_owned()).collect()
    }

    /// The number of elements that the selector finds.
    pub(crate) async fn count(&self, selector: &str) -> usize {
        self.texts(selector).await.len()
    }

    pub(crate) async fn has(&self, selector: &str) -> bool {
        self.count(selector).await > 0
    }

    /// The text of the whole page, as a viewer sees it.
    pub(crate) async fn body(&self) -> String {
        self.text("body").await.unwrap_or_default()
    }

    /// Waits until the selector finds an element.
    #[track_caller]
    pub(crate) fn wait_for(&self, selector: &str) -> impl Future<Output = ()> {
        self.until(format!("{selector} is there"), async move || self.has(selector).await)
    }

    /// Waits until the selector finds nothing.
    #[track_caller]
    pub(crate) fn wait_gone(&self, selector: &str) -> impl Future<Output = ()> {
        self.until(format!("{selector} is gone"), async move || !self.has(selector).await)
    }

    /// Waits until the text of the first element that the selector finds has these words.
    #[track_caller]
    pub(crate) fn wait_text(&self, selector: &str, words: &str) -> impl Future<Output = ()> {
        self.until(format!("{selector} says {words:?}"), async move || {
            self.text(selector).await.is_some_and(|text| text.contains(words))
        })
    }

    /// Waits until the address of the page ends with these words.
    #[track_caller]
    pub(crate) fn wait_url(&self, end: &str) -> impl Future<Output = ()> {
        self.until(format!("the address ends with {end}"), async move || {
            self.url().await.ends_with(end)
        })
    }

    /// Waits until the condition holds. Panics with the page if it does not within [`HANG_GUARD`].
    #[track_caller]
    pub(crate) fn until(
        &self,
        what: String,
        mut condition: impl AsyncFnMut() -> bool,
    ) -> impl Future<Output = ()> {
        let at = Location::caller();
        async move {
            let started = Instant::now();
            while !condition().await {
                if started.elapsed() > HANG_GUARD {
                    let (url, body) = (self.url().await, self.body().await);
                    let picture = self.screenshot("failed").await;
                    let picture = picture.display();
                    panic!("{at}: {what} not within {HANG_GUARD:?}, {picture}: {url}\n{body}");
                }
                tokio::time::sleep(STEP).await;
            }
        }
    }
}
