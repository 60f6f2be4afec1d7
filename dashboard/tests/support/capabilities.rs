//! How a browser is set up.

use std::{env, path::PathBuf};

use fantoccini::wd::Capabilities;
use serde_json::{Value, json};

/// Whether pages may run scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scripts {
    On,
    Off,
}

/// A screen on which a page is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Screen {
    Light,
    Dark,
    /// A telephone.
    Narrow,
}

impl Screen {
    /// The width and height in CSS pixels.
    pub(super) fn size(self) -> (u32, u32) {
        match self {
            Self::Light | Self::Dark => (1_280, 900),
            Self::Narrow => (360, 740),
        }
    }

    pub(super) fn scheme(self) -> &'static str {
        if self == Self::Dark { "dark" } else { "light" }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Dark => "dark",
            Self::Narrow => "narrow",
        }
    }
}

/// A headless browser that reaches nothing but 127.0.0.1. Its profile is in chromedriver's directory of temporary files.
pub(super) fn capabilities() -> Capabilities {
    let args = [
        "--headless",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--hide-scrollbars",
        "--no-first-run",
        "--no-default-browser-check",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-default-apps",
        "--disable-extensions",
        "--disable-sync",
        "--disable-breakpad",
        "--disable-crash-reporter",
        "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    ];
    let mut options = json!({ "args": args });
    if let Some(shell) = headless_shell() {
        options["binary"] = json!(shell);
    }
    let all = json!({
        "goog:loggingPrefs": { "browser": "ALL" },
        "goog:chromeOptions": options,
    });
    let Value::Object(all) = all else { unreachable!("it is an object") };
    all
}

/// Chromium without its own windows and menus, if it is installed: it takes half the processor time.
fn headless_shell() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|dir| dir.join("chromium-headless-shell"))
        .find(|file| file.exists())
}
