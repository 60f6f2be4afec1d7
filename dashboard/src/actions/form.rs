//! The form of an action, from the body of a POST.

use std::{error::Error, time::Duration};

use http::StatusCode;
use http_body_util::{BodyExt as _, Limited};
use tokio::time::timeout;

use crate::{pages::problem, query::Params, reply::Reply};

/// Maximum length of a form, in bytes: a name has at most 1,024, each encoded in three.
const LIMIT: usize = 16 * 1_024;
/// Maximum time for a form to arrive.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reads a form, or returns the answer to one that can't be read.
pub(super) async fn read<B>(body: B) -> Result<Params, Reply>
where
    B: http_body::Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let body = Limited::new(body, LIMIT).collect();
    match timeout(PATIENCE, body).await {
        Ok(Ok(body)) => Ok(Params::parse(&body.to_bytes())),
        Ok(Err(error)) => {
            let what = format!("The form can't be read: {error}.");
            Err(problem(StatusCode::BAD_REQUEST, "Bad request", &what))
        }
        Err(_) => {
            let what = "The form did not arrive within 10 s.";
            Err(problem(StatusCode::REQUEST_TIMEOUT, "Too slow", what))
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    #[tokio::test]
    async fn long_forms_are_refused() {
        let long = Full::<bytes::Bytes>::from("x".repeat(LIMIT + 1));
        assert_eq!(read(long).await.unwrap_err().status(), StatusCode::BAD_REQUEST);
        let form = Full::<bytes::Bytes>::from("name=a+b");
        assert_eq!(read(form).await.unwrap().get("name"), Some("a b"));
    }
}
