//! The slash at the end of the mount point, which routers of axum remove.

use axum::extract::OriginalUri;
use http::request::Parts;

/// A path below the mount point, by which a redirect shows how the browser's address ends.
const PROBE: &str = "~";
/// A parameter of the first page, which says that the browser's address ends with a slash.
const IN_FOLDER: &str = "in-folder";

/// Returns the relative address that leads a browser to the first page with a slash at the end. Without the
/// slash, relative links would lead to the pages beside the mount point.
///
/// A layer may have removed the slash (tower-http's `NormalizePath`), so an address that has none here may
/// have one in the browser. A link to `MOUNT/~` shows which: it arrives below the mount point once, or twice.
/// From there the relative address of the first page is known, and a parameter records that it was taken.
pub(super) fn slash(parts: &Parts) -> Option<String> {
    let asked = parts.extensions.get::<OriginalUri>()?.path();
    let query = parts.uri.query().unwrap_or_default();
    let others: Vec<_> =
        query.split('&').filter(|one| !one.is_empty() && *one != IN_FOLDER).collect();
    let is_marked = query.split('&').any(|one| one == IN_FOLDER);
    let to = |path: &str, query: &[&str]| {
        let query = query.join("&");
        if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
    };
    let marked = || [&[IN_FOLDER], &others[..]].concat();
    match *parts.uri.path().trim_start_matches('/').split('/').collect::<Vec<_>>() {
        [PROBE] => Some(to("./", &marked())),
        [_, PROBE] => Some(to("../", &marked())),
        [""] => match asked.rsplit('/').next().unwrap_or_default() {
            "" if is_marked => Some(to("./", &others)),
            "" => None,
            _ if is_marked => None,
            last => Some(to(&format!("./{last}/{PROBE}"), &others)),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn mount_point_gets_its_slash() {
        let address = |asked: &str, path: &str| {
            let mut request = Request::new(());
            *request.uri_mut() = path.parse().unwrap();
            let asked = OriginalUri(asked.parse().unwrap());
            request.extensions_mut().insert(asked);
            slash(&request.into_parts().0)
        };
        for (asked, path, expected) in [
            ("/admin/locks", "/", "./locks/~"),
            ("/locks?q=x", "/?q=x", "./locks/~?q=x"),
            // The browser's address has no slash at its end, or it has one.
            ("/admin/locks/~?q=x", "/~?q=x", "./?in-folder&q=x"),
            ("/admin/locks/locks/~", "/locks/~", "../?in-folder"),
            // Copied from a site that has a layer that takes slashes away.
            ("/admin/locks/?in-folder&q=x", "/?in-folder&q=x", "./?q=x"),
        ] {
            assert_eq!(address(asked, path).as_deref(), Some(expected), "{asked}");
        }
        assert_eq!(address("/admin/locks?in-folder", "/?in-folder"), None);
        assert_eq!(address("/admin/locks/", "/"), None);
        assert_eq!(address("/admin/locks/nodes", "/nodes"), None);
        assert_eq!(address("/", "/"), None);
    }
}
