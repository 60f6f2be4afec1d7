//! Clients that disconnect during a call.

use std::time::Duration;

use tonic::Code;
use tower_redlock::once::{OnceState, UnknownOutcome};

use super::site::{HOUR, Site, assert_duplicate};
use crate::grpc::{orders::generated::PlaceRequest, site::of};
use crate::support::eventually_async;

/// Cancels a call whose method runs.
async fn give_up(site: &Site) {
    let call = site.stuck("7").await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
}

#[tokio::test]
async fn call_finishes_without_its_client() {
    let site = Site::open(|layer| layer).await;
    give_up(&site).await;
    assert_eq!(site.place("7", "").await.unwrap_err().code(), Code::Aborted, "it runs");
    site.orders.let_go();
    site.becomes("7", Some(OnceState::Done)).await;
    assert_duplicate(site.place("7", "").await);
    assert_eq!((site.orders.entered(), site.orders.left()), (1, 1));
}

#[tokio::test]
async fn a_deadline_does_not_end_it() {
    let site = Site::open(|layer| layer).await;
    let mut request = of("7", PlaceRequest { item: "stuck".into(), quantity: 1 });
    request.set_timeout(Duration::from_millis(500));
    let code = site.client.clone().place(request).await.unwrap_err().code();
    assert!([Code::Cancelled, Code::DeadlineExceeded].contains(&code), "{code:?}");
    site.orders.let_go();
    site.becomes("7", Some(OnceState::Done)).await;
    assert_eq!(site.orders.entered(), 1);
}

#[tokio::test]
async fn undetached_call_ends_with_its_client() {
    let hold = UnknownOutcome::Hold(HOUR);
    for (unknown, state) in [(UnknownOutcome::Release, None), (hold, Some(OnceState::Unknown))] {
        let site = Site::open(|layer| layer.unknown(unknown).detached(false)).await;
        give_up(&site).await;
        eventually_async("it is dropped", async || site.orders.left() == 1).await;
        site.becomes("7", state).await;
    }
}
