//! The key from a parameter of axum's matched route.

use std::{borrow::Cow, sync::Arc};

use axum::extract::MatchedPath;

use super::{
    Key, RequestHead,
    decode::percent_decoded,
    names::Names,
    source::{Miss, sealed::Find},
};
use crate::layer::KeyError;

/// A parameter of axum's matched route names the resource: `{id}` in `/accounts/{id}`, or `{*rest}`
/// in `/files/{*rest}`.
///
/// It is percent-decoded exactly once, and so is what axum's `Path` gives to handlers. Nested
/// routers' parameters are found too, whichever router the layer is on. It is text: for handlers that
/// take a number, say [`parsed`](Key::parsed).
///
/// The route must be known where the layer runs: put it on with `Router::route_layer`, on a route's
/// method router, or with `Router::layer`, which answers requests that match no route with 404 itself
/// and does not call the router's fallback (put the layer on with `route_layer` to have it called).
/// Around a whole `Router` the layer runs before the route is found, and each request is answered
/// with 500. That is so with `optional()` too, which only lets requests pass whose route has no such
/// parameter.
///
/// A route with two parameters of this name (nested routers can make one) is an error of the setup:
/// extractors differ in which of the values they take.
///
/// ```
/// use axum::{Router, routing::post};
/// use tower_redlock::{Redlock, RedlockLayer, key};
///
/// # let redlock = Redlock::embedded();
/// # async fn withdraw() {}
/// let app: Router = Router::new()
///     .route("/accounts/{id}/withdraw", post(withdraw))
///     .route_layer(RedlockLayer::new(redlock, key::path_param("id").prefixed("account:")).http());
/// ```
pub fn path_param(name: impl Into<Arc<str>>) -> Key<PathParam> {
    Key::new(PathParam { name: name.into() })
}

/// Takes the name from a parameter of the route. Created by [`path_param`].
#[derive(Clone, Debug)]
pub struct PathParam {
    name: Arc<str>,
}

impl Find for PathParam {
    fn find<'r>(&self, head: &RequestHead<'r>) -> Result<Names<'r>, Miss> {
        let name = &*self.name;
        let Some(route) = head.extensions().get::<MatchedPath>() else {
            return Err(unmatched(name, head));
        };
        let raw = match find(name, route.as_str(), head.uri().path()) {
            Ok(raw) => raw,
            Err(Unfound::NoSuchParam) => {
                return Err(Miss::misplaced(format!(
                    "the matched route has no parameter {name}: name it as the route does, or put \
                     the layer on routes that have it"
                )));
            }
            Err(Unfound::Ambiguous) => {
                // Bad, not absent: an optional key must not let such requests pass.
                return Err(Miss::Bad(KeyError::setup(format!(
                    "the matched route has more than one parameter {name}, and its handler may \
                     read another one than this key: give each a name of its own"
                ))));
            }
            Err(Unfound::OtherPath) => {
                return Err(Miss::bad(format!(
                    "the path's parameter {name} was not found, as the path is not that of the \
                     matched route: do not rewrite the path between routers"
                )));
            }
        };
        if raw.is_empty() {
            return Err(Miss::bad(format!("the path's parameter {name} is empty")));
        }
        match percent_decoded(raw) {
            Some(value) => Ok(Names::One(value)),
            None => Err(Miss::bad(format!("the path's parameter {name} is not UTF-8"))),
        }
    }
}

#[derive(Debug, PartialEq)]
enum Unfound {
    NoSuchParam,
    /// Nested routers may repeat a name; extractors differ in which value they take.
    Ambiguous,
    OtherPath,
}

/// Finds a parameter's raw value. What comes behind it is the router's affair.
fn find<'r>(name: &str, route: &str, path: &'r str) -> Result<&'r str, Unfound> {
    match count(route, name) {
        0 => return Err(Unfound::NoSuchParam),
        1 => {}
        _ => return Err(Unfound::Ambiguous),
    }
    let mut rest = Some(path);
    for pattern in route.split('/').map(Pattern::of) {
        let Some(here) = rest else { return Err(Unfound::OtherPath) };
        let (segment, after) = match here.split_once('/') {
            Some((segment, after)) => (segment, Some(after)),
            None => (here, None),
        };
        match pattern {
            Pattern::Rest(param) if param == name => return Ok(here),
            Pattern::Param { before, param, behind } => {
                let value = segment
                    .strip_prefix(&*unescaped(before))
                    .and_then(|value| value.strip_suffix(&*unescaped(behind)));
                match value {
                    Some(value) if param == name => return Ok(value),
                    Some(_) => {}
                    None => return Err(Unfound::OtherPath),
                }
            }
            Pattern::Literal(text) if unescaped(text) != segment => return Err(Unfound::OtherPath),
            Pattern::Literal(_) | Pattern::Rest(_) => {}
        }
        rest = after;
    }
    Err(Unfound::OtherPath)
}

/// How many parameters of the route have this name.
fn count(route: &str, name: &str) -> usize {
    let is_named = |pattern: &Pattern<'_>| match pattern {
        Pattern::Param { param, .. } | Pattern::Rest(param) => *param == name,
        Pattern::Literal(_) => false,
    };
    route.split('/').map(Pattern::of).filter(is_named).count()
}

/// Why there is no matched route. A router sets `OriginalUri` before it looks for the route, and
/// takes the prefix of a nested service off the path. So a request whose path is still the original
/// one is in a router that has no route for it. It is not let through: its fallback may be a service
/// with routes of its own, which would run without the lock.
fn unmatched(name: &str, head: &RequestHead<'_>) -> Miss {
    if head.is_in_router() {
        return Miss::Bad(KeyError::not_found("no route was matched"));
    }
    Miss::Bad(KeyError::setup(format!(
        "the path's parameter {name} is not known, as no route was matched: put the layer on the \
         routes (Router::route_layer), not around the router"
    )))
}

/// A segment of a route, in axum's syntax.
enum Pattern<'a> {
    Literal(&'a str),
    /// `{param}`, perhaps with text around it.
    Param {
        before: &'a str,
        param: &'a str,
        behind: &'a str,
    },
    /// `{*param}`: all that is left of the path.
    Rest(&'a str),
}

impl<'a> Pattern<'a> {
    fn of(segment: &'a str) -> Self {
        let Some(open) = single_brace(segment) else { return Self::Literal(segment) };
        let (before, inside) = (&segment[..open], &segment[open + 1..]);
        match inside.split_once('}') {
            Some((param, behind)) => match param.strip_prefix('*') {
                Some(param) => Self::Rest(param),
                None => Self::Param { before, param, behind },
            },
            None => Self::Literal(segment),
        }
    }
}

/// Where a parameter begins: at a brace that is not doubled.
fn single_brace(segment: &str) -> Option<usize> {
    let bytes = segment.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        match (bytes[i], bytes.get(i + 1)) {
            (b'{', Some(b'{')) => i += 2,
            (b'{', _) => return Some(i),
            _ => i += 1,
        }
    }
    None
}

/// The text of a literal: doubled braces are one.
fn unescaped(literal: &str) -> Cow<'_, str> {
    if literal.contains(['{', '}']) {
        Cow::Owned(literal.replace("{{", "{").replace("}}", "}"))
    } else {
        Cow::Borrowed(literal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_match_the_router() {
        let cases = [
            ("id", "/accounts/{id}", "/accounts/42", Ok("42")),
            ("id", "/accounts/{id}/x", "/accounts/42/x", Ok("42")),
            ("id", "/{tenant}/{id}", "/a/b", Ok("b")),
            ("tenant", "/{tenant}/{id}", "/a/b", Ok("a")),
            ("rest", "/files/{*rest}", "/files/a/b/c", Ok("a/b/c")),
            ("id", "/files/{id}/{*rest}", "/files/a/b/c", Ok("a")),
            ("id", "/v{id}", "/v7", Ok("7")),
            ("id", "/{{a}}/{id}", "/{a}/7", Ok("7")),
            ("id", "/{id}/", "/7", Ok("7")),
            ("id", "/accounts/{id}", "/accounts/", Ok("")),
            ("id", "/accounts/{id}", "/others/42", Err(Unfound::OtherPath)),
            ("id", "/accounts/{id}", "/accounts", Err(Unfound::OtherPath)),
            ("id", "/v{id}", "/w7", Err(Unfound::OtherPath)),
            ("no", "/accounts/{id}", "/accounts/42", Err(Unfound::NoSuchParam)),
            ("a", "/{{a}}", "/{a}", Err(Unfound::NoSuchParam)),
            ("id", "/", "/", Err(Unfound::NoSuchParam)),
            ("no", "/accounts/{id}", "/others/42", Err(Unfound::NoSuchParam)),
            ("id", "/{id}/{id}", "/a/b", Err(Unfound::Ambiguous)),
            ("id", "/{id}/{*id}", "/a/b", Err(Unfound::Ambiguous)),
            ("other", "/{id}/{id}/{other}", "/a/b/c", Ok("c")),
        ];
        for (name, route, path, found) in cases {
            assert_eq!(find(name, route, path), found, "{name} of {route} in {path}");
        }
    }
}
