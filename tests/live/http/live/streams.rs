//! Bodies that are sent slowly.

use std::time::{Duration, Instant};

use http::Method;
use http_body_util::BodyExt;
use tower_redlock::{LockError, Redlock, RedlockBuilder, RedlockLayer};

use super::{
    client::{Client, http1},
    site::{Site, manager, patient, serve, soon},
};

const TTL: Duration = Duration::from_secs(2);

fn short() -> RedlockBuilder {
    Redlock::builder().ttl(TTL).node_timeout(TTL / 10)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_body_holds_until_its_end() {
    let site = Site::open(1, short).await;
    let rival = manager(&site.servers, short()).await;
    let mut sender = site.next_stream();
    let mut body = site.client().open(Method::GET, "/stream/a").await.unwrap().into_body();
    assert!(!site.shared.log.is_inside("a"), "the handler itself is done");

    let started = Instant::now();
    let mut chunks = 0_u32;
    while started.elapsed() < 3 * TTL / 2 {
        sender.send_data(chunks.to_string().into()).await.unwrap();
        let frame = soon("a chunk", body.frame()).await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), chunks.to_string());
        chunks += 1;
        assert!(site.is_held("a"), "after {:?}", started.elapsed());
        let refused = rival.lock("a").await;
        assert!(refused.is_err(), "{refused:?}");
        tokio::time::sleep(TTL / 20).await;
    }
    assert!(chunks > 10, "{chunks}");
    drop(sender);
    assert!(soon("the end", body.frame()).await.is_none(), "a clean end");
    let released = Instant::now();
    site.all_keys_gone().await;
    drop(rival.lock("a").await.expect("free"));
    println!("free {:?} after the end", released.elapsed());
}

#[tokio::test]
async fn disconnect_in_body_frees_the_key() {
    let site = Site::open(1, patient).await;
    let mut sender = site.next_stream();
    let mut body = site.client().open(Method::GET, "/stream/a").await.unwrap().into_body();

    sender.send_data("first".into()).await.unwrap();

    assert!(soon("a chunk", body.frame()).await.unwrap().is_ok());

    site.held("a").await;
    drop(body);
    site.all_keys_gone().await;
    assert!(sender.send_data("second".into()).await.is_err(), "the body is gone");
}

#[tokio::test]
async fn overlong_body_is_cut_visibly() {
    let site = Site::open(1, patient).await;
    let layer = RedlockLayer::new(site.managers[0].clone(), |_: &axum::extract::Request| "a")
        .max_hold(Duration::from_millis(300))
        .http();
    let endless = async || {
        let first = Ok::<_, LockError>(bytes::Bytes::from("first"));
        axum::body::Body::from_stream(futures_util::StreamExt::chain(
            futures_util::stream::iter([first]),
            futures_util::stream::pending(),
        ))
    };
    let app = axum::Router::new().fallback(endless).layer(layer);
    let client = Client::new(http1(), serve(app).await);

    let mut body = client.open(Method::GET, "/").await.unwrap().into_body();

    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "first");

    let cut = soon("the cut", body.frame()).await;
    assert!(matches!(cut, Some(Err(_))), "{cut:?}");

    site.all_keys_gone().await;
}
