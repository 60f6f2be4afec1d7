//! How a browser is set up.

use std::path::Path;

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

/// A headless browser that reaches nothing but 127.0.0.1 and keeps its files in `home`.
pub(super) fn capabilities(home: &Path, scripts: Scripts) -> Capabilities {
    let profile = format!("--user-data-dir={}", home.join("profile").display());
    let args = [
        "--headless=new",
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
        &profile,
    ];
    let javascript = match scripts {
        Scripts::On => 1,
        Scripts::Off => 2,
    };
    let all = json!({
        "goog:loggingPrefs": { "browser": "ALL" },
        "goog:chromeOptions": {
            "args": args,
            "prefs": { "profile.managed_default_content_settings.javascript": javascript },
        },
    });
    let Value::Object(all) = all else { unreachable!("it is an object") };
    all
}
