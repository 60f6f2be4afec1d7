//! Actions: who may, which form, and what came of it.

use std::{error::Error, sync::Arc, time::Duration};

use http::{StatusCode, request::Parts};
use http_body_util::{BodyExt as _, Limited};
use tokio::time::timeout;

use crate::{
    access::{Action, Viewer, is_cross_origin},
    actions::{Command, perform},
    pages::keeping_interval,
    problem::Problem,
    query::Params,
    reply::{Reply, redirect},
    site::Site,
};

/// Maximum length of a form, in bytes: a name has at most 1,024, each encoded in three.
const MAX_FORM_BYTES: usize = 16 * 1_024;
/// Timeout for a form to arrive.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) async fn post<B>(
    site: &Site,
    viewer: &Viewer,
    parts: &Parts,
    action: Action,
    body: B,
) -> Result<Reply, Problem>
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    if is_cross_origin(parts) {
        log_refusal(viewer, action, "the request came from another origin");
        return Err(Problem::denied(
            "This request came from a page of another origin, and nothing was done. If it did not, the proxy in front \
             changes the Host header, and the browser sends no Sec-Fetch-Site, as it does over TLS.",
        ));
    }
    if !viewer.may(action) {
        log_refusal(viewer, action, "the viewer may not do it");
        return Err(Problem::denied("You may not do this."));
    }
    let command = Arc::new(Command::new(action, viewer, read(body).await?)?);
    let (done, _) = perform(site, &command).await?;
    let (subject, Command { form, .. }) = (action.subject(), &*command);
    let params = [(subject.param(), &*command.subject), ("done", done.code())];
    let address = keeping_interval(subject.page().0, &params, form);
    Ok(redirect(StatusCode::SEE_OTHER, &address))
}

/// Reads a form.
async fn read<B>(body: B) -> Result<Params, Problem>
where
    B: http_body::Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let form = timeout(READ_TIMEOUT, Limited::new(body, MAX_FORM_BYTES).collect()).await;
    let late = "The form did not arrive within 10 s.";
    let form = form.map_err(|_| Problem::new(StatusCode::REQUEST_TIMEOUT, "Too slow", late))?;
    let unreadable = |error| Problem::bad_request(format!("The form can't be read: {error}."));
    Ok(Params::parse(&form.map_err(unreadable)?.to_bytes()))
}

fn log_refusal(viewer: &Viewer, action: Action, why: &str) {
    tracing::warn!(action = action.name(), by = %viewer.recorded_name(), "an action was denied: {why}");
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    #[tokio::test]
    async fn long_forms_are_refused() {
        let long = Full::<bytes::Bytes>::from("x".repeat(MAX_FORM_BYTES + 1));
        assert_eq!(read(long).await.unwrap_err().status, StatusCode::BAD_REQUEST);
        let form = Full::<bytes::Bytes>::from("name=a+b");
        assert_eq!(read(form).await.unwrap().get("name"), Some("a b"));
    }
}
