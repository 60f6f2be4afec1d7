use std::sync::Arc;

use super::{
    Key, RequestHead,
    decode::form_decoded,
    names::Names,
    source::{Miss, sealed::Find},
};

/// A parameter of the query names the resource; it is given once, and not empty. Names and values
/// are decoded as forms are: `+` is a space, and percent-encoding is decoded once.
///
/// ```
/// use tower_redlock::{key, layer::ResourceKey};
///
/// let key = key::query("account");
/// let request = http::Request::get("/pay?sum=3&account=a+b%2B").body(())?;
/// assert_eq!(key.key(&request).unwrap().unwrap().to_string(), "a b+");
/// let twice = http::Request::get("/pay?account=1&account=2").body(())?;
/// assert!(key.key(&twice).is_err());
/// # Ok::<(), http::Error>(())
/// ```
pub fn query(name: impl Into<Arc<str>>) -> Key<Query> {
    Key::new(Query { name: name.into() })
}

/// Takes the name from a parameter of the query. Made by [`query`].
#[derive(Clone, Debug)]
pub struct Query {
    name: Arc<str>,
}

impl Find for Query {
    fn find<'r>(&self, head: &RequestHead<'r>) -> Result<Names<'r>, Miss> {
        let name = &*self.name;
        let pairs = head.uri().query().unwrap_or_default().split('&');
        let mut values = pairs
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .filter(|(key, _)| form_decoded(key).is_some_and(|key| key == name))
            .map(|(_, value)| value);
        let Some(value) = values.next() else {
            return Err(Miss::absent(format!("the query has no parameter {name}")));
        };
        if values.next().is_some() {
            return Err(Miss::bad(format!("the query has the parameter {name} more than once")));
        }
        match form_decoded(value) {
            Some(value) if value.is_empty() => {
                Err(Miss::bad(format!("the query's parameter {name} is empty")))
            }
            Some(value) => Ok(Names::One(value)),
            None => Err(Miss::bad(format!("the query's parameter {name} is not UTF-8"))),
        }
    }
}
