//! Pages that say why there is no other one.

use http::{HeaderValue, StatusCode, header::WWW_AUTHENTICATE};
use maud::html;

use super::Visit;
use crate::reply::{Reply, html as page};

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
    page(StatusCode::FORBIDDEN, Visit::plain_page("Not configured", &content))
}

pub(crate) fn forbidden(what: &str) -> Reply {
    let content = html! { p { (what) } };
    page(StatusCode::FORBIDDEN, Visit::plain_page("Forbidden", &content))
}

pub(crate) fn challenged(challenge: &HeaderValue) -> Reply {
    let content = html! { p { "Reload the page, and give your name and password." } };
    let mut reply = page(StatusCode::UNAUTHORIZED, Visit::plain_page("Who are you?", &content));
    reply.headers_mut().insert(WWW_AUTHENTICATE, challenge.clone());
    reply
}

pub(crate) fn problem(status: StatusCode, title: &str, what: &str) -> Reply {
    let content = html! {
        p { (super::words::text(what)) }
        p { a href="./" { "To the locks" } }
    };
    page(status, Visit::plain_page(title, &content))
}
