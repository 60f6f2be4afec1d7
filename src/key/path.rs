use super::{
    Key, RequestHead,
    decode::percent_decoded,
    names::Names,
    source::{Miss, sealed::Find},
};

/// A segment of the path names the resource: in `/accounts/42`, segment 0 is `accounts` and
/// segment 1 is `42`.
///
/// It is percent-decoded exactly once, so `%34%32` and `42` are one name, and so is what axum's
/// `Path` gives to handlers. Behind axum's nested routers it is still the path that was sent
/// (feature `axum`). It is text: for handlers that take a number, say [`parsed`](Key::parsed). An
/// empty segment is an error; `optional()` lets requests pass whose path is
/// too short.
///
/// ```
/// use tower_redlock::{key, layer::ResourceKey};
///
/// let key = key::path_segment(1);
/// for path in ["/accounts/42", "/accounts/%34%32", "/accounts/42/withdraw?now"] {
///     let request = http::Request::get(path).body(())?;
///     assert_eq!(key.key(&request).unwrap().unwrap().to_string(), "42");
/// }
/// assert!(key.key(&http::Request::get("/accounts/").body(())?).is_err());
/// # Ok::<(), http::Error>(())
/// ```
pub const fn path_segment(index: usize) -> Key<PathSegment> {
    Key::new(PathSegment { index })
}

/// Takes the name from a segment of the path. Made by [`path_segment`].
#[derive(Clone, Copy, Debug)]
pub struct PathSegment {
    index: usize,
}

impl Find for PathSegment {
    fn find<'r>(&self, head: &RequestHead<'r>) -> Result<Names<'r>, Miss> {
        let index = self.index;
        let segments = head.uri().path().strip_prefix('/').map(|path| path.split('/'));
        let Some(segment) = segments.and_then(|mut segments| segments.nth(index)) else {
            return Err(Miss::absent(format!("the path has no segment {index} (from 0)")));
        };
        if segment.is_empty() {
            return Err(Miss::bad(format!("segment {index} of the path (from 0) is empty")));
        }
        match percent_decoded(segment) {
            Some(name) => Ok(Names::One(name)),
            None => Err(Miss::bad(format!("segment {index} of the path (from 0) is not UTF-8"))),
        }
    }
}
