//! Pages that say why the requested page is not shown.

use http::{HeaderValue, StatusCode, header::WWW_AUTHENTICATE};
use maud::{Markup, html};

use super::{
    layout::{bare_page, files},
    words::text,
};
use crate::{
    problem::Problem,
    reply::{Reply, html as page, without_files},
};

/// Returns the page of a dashboard without [access](crate::Dashboard::access).
pub(crate) fn unconfigured() -> Reply {
    let content = html! {
        p { "No viewer has access to these pages yet. Configure access where the dashboard is built:" }
        pre { code {
            "Dashboard::new(redlock).access(\n"
            "    BasicAuth::new(\"locks\").user(\"ann\", password, Access::All),\n"
            ")"
        } }
        p {
            "Or give a closure that looks at the request, and returns "
            code { "Access::Forbidden" } ", " code { "Access::ReadOnly" } ", "
            code { "Access::Only(actions)" } " or " code { "Access::All" } "."
        }
    };
    plain(StatusCode::FORBIDDEN, "Not configured", &content)
}

/// Returns the page for a viewer without access.
pub(crate) fn forbidden(what: &str) -> Reply {
    plain(StatusCode::FORBIDDEN, "Forbidden", &html! { p { (what) } })
}

pub(crate) fn challenged(challenge: &HeaderValue) -> Reply {
    let content = html! { p { "Reload the page, and give your name and password." } };
    let mut reply = plain(StatusCode::UNAUTHORIZED, "Who are you?", &content);
    reply.headers_mut().insert(WWW_AUTHENTICATE, challenge.clone());
    reply
}

/// Returns the page for a viewer with access, at any path.
pub(crate) fn problem(path: &str, Problem { status, title, what }: &Problem) -> Reply {
    let what = html! { p { (text(what)) } };
    // The links are relative to the pages.
    if path.contains('/') {
        return plain(*status, title, &what);
    }
    let content = html! { (what) p { a href="./" { "To the locks" } } };
    page(*status, bare_page(title, &files(), &content))
}

/// Returns a page without the dashboard's files: its viewer may not load them, or they are not beside it.
fn plain(status: StatusCode, title: &str, content: &Markup) -> Reply {
    let head = html! { link rel="icon" href="data:,"; };
    without_files(page(status, bare_page(title, &head, content)))
}
