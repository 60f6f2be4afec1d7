//! Resources and options of single requests.

use std::{convert::Infallible, future::IntoFuture, time::Duration};

use axum::http::{HeaderValue, Request};
use tower::{Layer, ServiceExt, service_fn};
use tower_redlock::{
    Job, LockError, LockOptions, LockRequest, OnceLayer, Redlock, RedlockLayer, Resource, Schedule,
    Scheduler,
    error::ResourceError,
    layer::{KeyError, ResourceKey},
    node::EmbeddedNodes,
};

use crate::bad_input::recorder::Recorder;

#[tokio::test]
async fn invalid_names_are_refused() {
    let cases = [
        (String::new(), ResourceError::EmptyName, "empty"),
        ("x".repeat(513), ResourceError::NameTooLong { bytes: 513 }, "512 bytes"),
        ("漢".repeat(171), ResourceError::NameTooLong { bytes: 513 }, "512 bytes"),
        ("a\nb".into(), ResourceError::ControlCharacter { position: 1 }, "control character"),
        ("\u{0}".into(), ResourceError::ControlCharacter { position: 0 }, "byte 0"),
        ("ok\u{7f}".into(), ResourceError::ControlCharacter { position: 2 }, "byte 2"),
        ("é\u{9b}".into(), ResourceError::ControlCharacter { position: 2 }, "byte 2"),
    ];
    for (name, expected, text) in cases {
        let error = refusal(name.clone()).await;
        assert_eq!(error, LockError::InvalidResource(expected));
        assert!(error.to_string().contains(text), "{error}");
        // An invalid name in a set is refused too.
        assert_eq!(refusal(vec!["fine".to_owned(), name]).await, error);
    }
}

#[tokio::test]
async fn sets_without_valid_size() {
    let names = |count: usize| (0..count).map(|i| format!("n{i}")).collect::<Vec<_>>();
    let error = refusal(names(17)).await;
    assert_eq!(error, LockError::InvalidResource(ResourceError::TooManyNames { count: 17 }));
    assert!(error.to_string().contains("at most 16") && error.to_string().contains("17"));
    let error = refusal(names(0)).await;
    assert_eq!(error, LockError::InvalidResource(ResourceError::NoNames));
}

#[tokio::test]
async fn names_at_the_limits() {
    let names: Vec<String> = (0..16).map(|i| format!("{i:0>512}")).collect();
    let twice = names.iter().chain(&names).cloned().collect::<Vec<_>>();
    Redlock::embedded().lock(twice).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn invisible_header_is_not_a_key() {
    let key = |request: &Request<()>| -> Result<String, KeyError> {
        let value =
            request.headers().get("x-account").ok_or(KeyError::new("x-account is missing"))?;
        let text = value.to_str().map_err(|_| KeyError::new("x-account is not visible ASCII"))?;
        Ok(text.to_owned())
    };
    let recorder = Recorder::default();
    let inner = service_fn(async |_: Request<()>| -> Result<(), Infallible> {
        panic!("the inner service must not run")
    });
    let service = RedlockLayer::new(recorder.redlock(), key).layer(inner);
    let cases = [
        (None, "x-account is missing"),
        (Some(&b"caf\xe9"[..]), "x-account is not visible ASCII"),
        (Some("漢".as_bytes()), "x-account is not visible ASCII"),
        (Some(b""), "a resource's name is empty"),
        (Some(&[b'x'; 513]), "at most 512 bytes"),
    ];

    for (value, text) in cases {
        let mut request = Request::new(());
        if let Some(value) = value {
            request.headers_mut().insert("x-account", HeaderValue::from_bytes(value).unwrap());
        }
        let direct = key.key(&request).unwrap_err().to_string();
        assert!(direct.contains(text), "{direct}");
        let error = service.clone().oneshot(request).await.unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }

    assert_eq!(recorder.count(), 0);
}

#[tokio::test]
async fn invalid_options_are_named() {
    let ms = Duration::from_millis;

    assert!(invalid_request(|r| r.ttl(Duration::ZERO)).await.contains("TTL is zero"));

    let text = invalid_request(|r| r.ttl(ms(2))).await;
    assert!(text.contains("TTL of 2ms") && text.contains("drift"), "{text}");

    for ttl in [ms(10_001), Duration::MAX] {
        let text = invalid_request(|r| r.ttl(ttl)).await;
        assert!(text.contains("max_ttl (10s)"), "{text}");
    }

    assert!(invalid_request(|r| r.max_hold(Duration::ZERO)).await.contains("max_hold"));
    assert!(invalid_request(|r| r.max_attempts(0)).await.contains("max_attempts"));
}

#[tokio::test]
async fn slots_of_what_has_one_holder_are_refused() {
    const SLOTS: LockOptions = LockOptions::new().slots(2);
    let recorder = Recorder::default();
    let redlock = recorder.redlock();
    let job = Job::new("x", Schedule::every(Duration::from_secs(60)), async |_| {}).options(SLOTS);
    let work = async |_| Ok::<_, Infallible>(());
    let inner = service_fn(async |()| -> Result<(), Infallible> { panic!("it must not run") });
    let layer = OnceLayer::new(redlock.clone(), "layer", |(): &()| "x").options(SLOTS);

    for text in [
        redlock.leader("x").options(SLOTS).run(|_| async {}).await.unwrap_err().to_string(),
        Scheduler::new(redlock.clone()).job(job).start().unwrap_err().to_string(),
        redlock.once("x").options(SLOTS).run(work).await.unwrap_err().to_string(),
        layer.layer(inner).oneshot(()).await.unwrap_err().to_string(),
    ] {
        assert!(text.contains("slots does not apply: this lock has one holder"), "{text}");
    }
    assert_eq!(recorder.count(), 0);
}

#[tokio::test]
async fn longest_options_do_not_overflow() {
    let century = Duration::from_secs(100 * 365 * 24 * 3600);
    let redlock = Redlock::builder()
        .nodes_from(&EmbeddedNodes::new(3))
        .ttl(century)
        .wait(century)
        .max_hold(century)
        .node_timeout(century)
        .retry_delay(Duration::ZERO..=century)
        .build()
        .unwrap();

    let lock = redlock.lock("a").max_hold(Duration::MAX).await.unwrap();

    assert!(lock.remaining() > century / 2);

    lock.extend().await.unwrap();
    let busy = redlock.lock("a").wait(Duration::ZERO).await.unwrap_err();
    assert!(matches!(busy, LockError::Held { .. }), "{busy:?}");

    lock.release().await.unwrap();
}

#[tokio::test]
async fn longest_wait_does_not_limit() {
    let builder = || Redlock::builder().nodes_from(&EmbeddedNodes::new(3));
    let by_default = builder().wait(Duration::MAX).max_hold(Duration::MAX).build().unwrap();
    let by_request = builder().build().unwrap();

    for redlock in [by_default, by_request] {
        let request = || redlock.lock("a").wait(Duration::MAX).max_hold(Duration::MAX);
        let lock = redlock.lock("a").await.unwrap();
        let mut waiting = tokio::spawn(request().into_future());
        let early = tokio::time::timeout(Duration::from_millis(20), &mut waiting).await;
        assert!(early.is_err(), "it waits");
        lock.release().await.unwrap();
        drop(waiting.await.unwrap().unwrap());
    }
}

/// Returns the request's error. Checks that nothing was sent.
async fn refusal<R>(resource: R) -> LockError
where
    R: TryInto<Resource> + Clone,
    R::Error: Into<ResourceError>,
{
    let recorder = Recorder::default();
    let redlock = recorder.redlock();
    let waiting = redlock.lock(resource.clone()).wait(Duration::from_secs(60));
    let error = redlock.lock(resource.clone()).await.unwrap_err();
    assert_eq!(waiting.await.unwrap_err(), error);
    let ran = redlock.lock(resource).run(|_| async { panic!("it must not run") }).await;
    assert_eq!(ran, Err::<(), _>(error.clone()));
    assert_eq!(recorder.count(), 0);
    error
}

/// Returns the text of the error for invalid options.
async fn invalid_request(change: impl FnOnce(LockRequest) -> LockRequest) -> String {
    let recorder = Recorder::default();
    let redlock = recorder.redlock();
    let error = change(redlock.lock("a")).await.unwrap_err();
    assert!(matches!(error, LockError::InvalidRequest(_)), "{error:?}");
    assert_eq!(recorder.count(), 0);
    error.to_string()
}
