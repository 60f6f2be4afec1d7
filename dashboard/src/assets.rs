//! The files that the pages load.

use http::StatusCode;

use crate::reply::{Reply, reply};

const STYLE: &str = include_str!("assets/style.css");
const SCRIPT: &str = include_str!("assets/live.js");
const ICON: &str = include_str!("assets/icon.svg");

/// Returns the file of this path.
pub(crate) fn asset(path: &str) -> Option<Reply> {
    let (content_type, content) = match path {
        "style.css" => ("text/css; charset=utf-8", STYLE),
        "live.js" => ("text/javascript; charset=utf-8", SCRIPT),
        "icon.svg" => ("image/svg+xml", ICON),
        _ => return None,
    };
    Some(reply(StatusCode::OK, content_type, content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_small() {
        assert!(STYLE.len() + SCRIPT.len() <= 40_000);
    }
}
