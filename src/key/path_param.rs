//! The key from a parameter of axum's matched route.

use std::{borrow::Cow, sync::Arc};

use axum::extract::MatchedPath;

use super::{
    Key, RequestHead,
    decode::percent_decoded,
    names::Names,
    source::{NoKey, sealed::Find},
};
use crate::layer::KeyError;

/// Takes the name from a parameter of axum's matched route: `{id}` in `/accounts/{id}`, or `{*rest}` in
/// `/files/{*rest}`.
///
/// The value is percent-decoded exactly once, as by axum's `Path`. Parameters of nested routers are
/// found in each of the routers. The name is text: for handlers that take a number, add
/// [`parsed`](Key::parsed).
///
/// The layer must run after the route was matched. Add it to a route's method router
/// (`MethodRouter::route_layer`), or with `Router::route_layer`, which applies to all methods. With `Router::layer`, it rejects requests without a route with 404, and
/// the router's fallback is not called. Around a whole `Router` it runs before the route is
/// matched, and rejects each request with 500. `optional()` does not change that: it only lets
/// requests pass whose route has no such parameter.
///
/// A route with two parameters of this name (nested routers can make one) is an error of the setup,
/// as extractors differ in which value they take.
///
/// ```
/// use axum::{Router, routing::post};
/// use tower_redlock::{Redlock, RedlockLayer, key};
///
/// # let redlock = Redlock::embedded();
/// # async fn withdraw() {}
/// let layer = RedlockLayer::new(redlock, key::path_param("id").prefixed("account:")).http();
/// let app: Router =
///     Router::new().route("/accounts/{id}/withdraw", post(withdraw).route_layer(layer));
/// # let _ = app;
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
    fn find<'r>(&self, head: &RequestHead<'r>) -> Result<Names<'r>, NoKey> {
        let name = &*self.name;
        let Some(route) = head.extensions().get::<MatchedPath>() else {
            return Err(unmatched(name, head));
        };
        let raw = match find(name, route.as_str(), head.uri().path()) {
            Ok(raw) => raw,
            Err(Unfound::NoSuchParam) => {
                return Err(NoKey::misplaced(format!(
                    "the matched route has no parameter {name}: name it as the route does, or put \
                     the layer on routes that have it"
                )));
            }
            Err(Unfound::Ambiguous) => {
                // The error is `Invalid`, not `Missing`, as an optional key must not let such
                // requests pass.
                return Err(NoKey::Invalid(KeyError::setup(format!(
                    "the matched route has more than one parameter {name}, and its handler may \
                     read another one than this key: give each a name of its own"
                ))));
            }
            Err(Unfound::OtherPath) => {
                return Err(NoKey::invalid(format!(
                    "the path's parameter {name} was not found, as the path is not that of the \
                     matched route: do not rewrite the path between routers"
                )));
            }
        };
        if raw.is_empty() {
            return Err(NoKey::invalid(format!("the path's parameter {name} is empty")));
        }
        match percent_decoded(raw) {
            Some(value) => Ok(Names::One(value)),
            None => Err(NoKey::invalid(format!("the path's parameter {name} is not UTF-8"))),
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

/// Finds a parameter's raw value. The rest of the path is not checked.
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

/// Returns the number of the route's parameters with this name.
fn count(route: &str, name: &str) -> usize {
    let is_named = |pattern: &Pattern<'_>| match pattern {
        Pattern::Param { param, .. } | Pattern::Rest(param) => *param == name,
        Pattern::Literal(_) => false,
    };
    route.split('/').map(Pattern::of).filter(is_named).count()
}

/// Returns the reason for a missing route. A router sets `OriginalUri` before it matches the route,
/// and removes the prefix of a nested service from the path. So a request with its original path is
/// in a router that has no route for it. Such a request is rejected, as the fallback may be a
/// service with its own routes, which would run without the lock.
fn unmatched(name: &str, head: &RequestHead<'_>) -> NoKey {
    if head.is_in_router() {
        return NoKey::Invalid(KeyError::not_found("no route was matched"));
    }
    NoKey::Invalid(KeyError::setup(format!(
        "the path's parameter {name} is not known, as no route was matched: put the layer on the \
         routes (MethodRouter::route_layer, Router::route_layer), not around the router"
    )))
}

/// A segment of a route, in axum's syntax.
enum Pattern<'a> {
    Literal(&'a str),
    /// `{param}`, possibly with text around it.
    Param {
        before: &'a str,
        param: &'a str,
        behind: &'a str,
    },
    /// `{*param}`: the rest of the path.
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

/// Returns the start of a parameter: the first brace that is not doubled.
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

/// Returns the text of a literal, in which doubled braces are single.
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
