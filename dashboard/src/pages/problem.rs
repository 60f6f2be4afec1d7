//! Pages that say why there is no other one.

use http::{HeaderValue, StatusCode, header::WWW_AUTHENTICATE};
use maud::{Markup, html};

use super::Visit;
use crate::reply::{Reply, html as page, without_files};

/// Nobody was given access.
pub(crate) fn unconfigured() -> Reply {
    let content = html! {
        p { "Nobody has access to these pages yet. Say who does where the dashboard is built:" }
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

/// To a viewer without access.
pub(crate) fn forbidden(what: &str) -> Reply {
    plain(StatusCode::FORBIDDEN, "Forbidden", &html! { p { (what) } })
}

/// To a viewer with access who asks for more.
pub(crate) fn denied(what: &str) -> Reply {
    problem(StatusCode::FORBIDDEN, "Forbidden", what)
}

pub(crate) fn challenged(challenge: &HeaderValue) -> Reply {
    let content = html! { p { "Reload the page, and give your name and password." } };
    let mut reply = plain(StatusCode::UNAUTHORIZED, "Who are you?", &content);
    reply.headers_mut().insert(WWW_AUTHENTICATE, challenge.clone());
    reply
}

/// To a viewer with access, at the depth of the pages.
pub(crate) fn problem(status: StatusCode, title: &str, what: &str) -> Reply {
    let content = html! {
        p { (super::words::text(what)) }
        p { a href="./" { "To the locks" } }
    };
    page(status, Visit::problem_page(title, &content))
}

/// As [`problem`], at any path.
pub(crate) fn problem_at(path: &str, status: StatusCode, title: &str, what: &str) -> Reply {
    if path.contains('/') {
        plain(status, title, &html! { p { (super::words::text(what)) } })
    } else {
        problem(status, title, what)
    }
}

/// A page without the dashboard's files: its viewer may not load them, or they are not beside it.
fn plain(status: StatusCode, title: &str, content: &Markup) -> Reply {
    without_files(page(status, Visit::plain_page(title, content)))
}
