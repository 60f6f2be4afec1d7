//! The accessibility rules of axe-core, run in the browser.
//!
//! `dashboard/tests/axe/axe.min.js` is axe-core 4.14.1 as its authors publish it, under the Mozilla Public License 2.0
//! (`LICENSE` beside it; the source is at <https://github.com/dequelabs/axe-core/tree/v4.14.1>). It is a file of the
//! tests alone, and is not in the package.

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{Browser, Screen};

const AXE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/axe/axe.min.js");
/// The SHA-256 of version 4.14.1, in base64.
const HASH: &str = "KTSJmUUM3yhJqOcLeRL8LahahJ2jnA0NU5T1HUqe2Vw=";

/// Runs all rules, and reports each element that violates one.
const RUN: &str = "
    const done = arguments[0];
    axe.run(document, { resultTypes: ['violations'] }).then(
        ({ violations }) => done(violations.flatMap(({ id, help, nodes }) =>
            nodes.map(({ html, failureSummary }) => `${id}: ${help}: ${html}: ${failureSummary}`))),
        (error) => done([`axe-core failed: ${error}`]),
    );
";

/// Number of pixels by which the page is wider than the screen.
const EXCESS_WIDTH: &str =
    "const root = document.documentElement; return root.scrollWidth - root.clientWidth";

impl Browser {
    /// Asserts that the page is not wider than the screen, and violates no rule of axe-core.
    #[track_caller]
    pub(crate) fn assert_usable(&self) -> impl Future<Output = ()> {
        let at = std::panic::Location::caller();
        async move {
            let url = self.url().await;
            let excess = self.script(EXCESS_WIDTH).await;
            assert_eq!(excess, 0, "{at}: {url} is not wider than the screen");
            let faults = self.axe_violations().await;
            assert!(faults.is_empty(), "{at}: {url} violates no rule: {faults:#?}");
        }
    }

    /// Asserts that a page is usable on each screen, and keeps a picture of each. `selector`: what the page has once
    /// it is loaded.
    pub(crate) async fn assert_usable_on_screens(&self, url: &str, selector: &str, name: &str) {
        for screen in [Screen::Light, Screen::Dark, Screen::Narrow] {
            self.show_on(screen).await;
            self.open_with(url, selector).await;
            self.screenshot(&format!("{name}-{}", screen.name())).await;
            self.assert_usable().await;
        }
    }

    /// Returns what violates a rule of axe-core on the page, with the name of the rule first.
    pub(crate) async fn axe_violations(&self) -> Vec<String> {
        if self.script("return typeof axe").await == "undefined" {
            self.script(&source()).await;
        }
        let found = self.client.execute_async(RUN, Vec::new()).await;
        let found = found.unwrap_or_else(|error| panic!("axe-core does not run: {error}"));
        let Value::Array(found) = found else { panic!("axe-core returned {found}") };
        found.iter().map(|fault| fault.as_str().unwrap_or_default().to_owned()).collect()
    }
}

/// Returns the text of axe-core.
fn source() -> String {
    let text = std::fs::read_to_string(AXE).unwrap_or_else(|error| {
        panic!("{AXE} is missing: restore it from the repository: {error}")
    });
    let hash = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, Sha256::digest(&text));
    assert_eq!(hash, HASH, "{AXE} is not axe-core 4.14.1: restore it from the repository");
    text
}
