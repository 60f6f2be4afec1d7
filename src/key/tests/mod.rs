//! Tests of the keys.

mod body;
mod combined;
mod found;
mod idempotency;
mod spellings;

use http::Request;

use crate::layer::ResourceKey;

/// The name that a key finds, or the error's text; `None` where no lock is needed.
fn name<B>(
    key: &impl ResourceKey<Request<B>>,
    request: &Request<B>,
) -> Result<Option<String>, String> {
    let resource = key.key(request).map_err(|error| error.to_string())?;
    Ok(resource.map(|resource| resource.to_string()))
}

#[allow(clippy::unnecessary_wraps, reason = "the expected value of a comparison")]
fn some(name: &str) -> Result<Option<String>, String> {
    Ok(Some(name.to_owned()))
}

fn error(text: &str) -> Result<Option<String>, String> {
    Err(text.to_owned())
}

fn get(uri: &str) -> Request<()> {
    Request::get(uri).body(()).unwrap()
}
