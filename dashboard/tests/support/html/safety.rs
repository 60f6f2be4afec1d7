//! What the content security policy forbids, and addresses that work at one mount point only.

use super::{Note, tree::Tree};

const ADDRESSES: [&str; 7] =
    ["href", "src", "action", "formaction", "poster", "data", "xlink:href"];

pub(super) fn check(tree: &Tree, note: Note<'_>) {
    for element in &tree.elements {
        let name = element.name.as_str();
        if matches!(name, "style" | "base" | "iframe" | "object" | "embed") {
            note(element.line, format!("<{name}> is in the page"));
        }
        if name == "script" && (element.said("src").is_none() || !element.text.trim().is_empty()) {
            note(element.line, "a script is in the page".into());
        }
        // Loading the same page again after some seconds is allowed.
        let is_interval = |content: &str| content.bytes().all(|byte| byte.is_ascii_digit());
        let refreshes = element.get("http-equiv") == Some("refresh")
            && element.get("content").is_some_and(is_interval);
        if element.get("http-equiv").is_some() && !refreshes {
            note(element.line, "a header is in the page".into());
        }
        for (attribute, value) in &element.attributes {
            if attribute == "style" || attribute.starts_with("on") || attribute == "srcdoc" {
                note(element.line, format!("<{name}> has {attribute}={value:?}"));
            }
            // An empty icon, in the place of one that the browser would ask the origin for.
            let is_no_icon = element.get("rel") == Some("icon") && value == "data:,";
            if ADDRESSES.contains(&attribute.as_str()) && !is_relative(value) && !is_no_icon {
                note(
                    element.line,
                    format!("<{name}> has an address that is not relative: {value:?}"),
                );
            }
        }
    }
}

/// Whether an address stays below the page's own, at any mount point: no scheme, host, root or parent.
fn is_relative(address: &str) -> bool {
    let path = address.split(['?', '#']).next().unwrap_or_default();
    let has_scheme = path.split('/').next().is_some_and(|first| first.contains(':'));
    let climbs = path.split('/').any(|part| part == "..");
    let is_blank = address.is_empty();
    !is_blank
        && !has_scheme
        && !climbs
        && !path.starts_with('/')
        && !path.contains(['\\', '\t', '\n', '\r'])
}
