//! The traits of every public type, and the causes that errors return.

use std::{
    error::Error, fmt::Debug, future::IntoFuture, hash::Hash, panic::UnwindSafe, sync::Arc,
    time::Duration,
};

use tower_redlock::{
    FencingLayer, FencingToken, Lock, LockContext, LockError, LockRequest, Redlock, RedlockBuilder,
    RedlockLayer, Resource,
    blocking::{Blocking, BlockingLock, BlockingRequest},
    diagnosis::{Advice, Diagnosis, DiagnosisFuture, DiagnosisRequest, Severity, Verdict},
    error::{
        AdoptError, BuildError, LossCause, Reason, ReleaseError, ResourceError, Vote, VoteOutcome,
        Votes,
    },
    fencing::{self, FencingError, FencingService, TokenError},
    layer::{self, KeyError, RedlockFuture, RedlockService},
    lock::{Acquire, Holder, Lost, Release, Released},
    node::{
        Answer, Blocked, ClockOffset, EmbeddedNodes, LeaseId, Memory, Node, NodeHealth, NodeState,
        Nonce, Op, Persistence, Reply, Role,
        redis::{AuthToken, Credentials, EvictionGuard, RestartGuard, TlsOptions},
    },
    time::{Clock, SystemClock, Timestamp},
};

const fn shared<T: Send + Sync + Debug + 'static>() {}
const fn sendable<T: Send + Debug + 'static>() {}
const fn cloned<T: Clone>() {}
const fn unpinned<T: Unpin>() {}
const fn value<T: Copy + Eq + Ord + Hash>() {}
const fn error<T: Error + Clone + Send + Sync + Unpin + 'static>() {}
const fn clock<T: Clock>() {}
const fn unwinds<T: UnwindSafe>() {}
const fn is_send<T: Send>(_: &T) {}
const fn serves<S: tower::Service<R, Future: Send + Unpin + 'static>, R>() {}
const fn object_safe(_: Option<&dyn Node>, _: Option<&dyn Clock>) {}

/// Checks each of the types.
macro_rules! each {
    ($check:ident: $($type:ty),* $(,)?) => { $($check::<$type>();)* };
}

type Inner = tower::util::BoxCloneSyncService<String, (), std::io::Error>;

#[test]
fn handles_are_shared() {
    each!(shared:
        Redlock, RedlockBuilder, LockRequest, Blocking, BlockingRequest, BlockingLock,
        DiagnosisRequest, Diagnosis, Advice, (Verdict, Severity), LockContext,
    );
    each!(cloned: Redlock, LockRequest, Blocking, BlockingRequest, DiagnosisRequest, LockContext);
    each!(sendable: RedlockBuilder, DiagnosisFuture);
    unpinned::<DiagnosisFuture>();
    #[cfg(feature = "http")]
    shared::<tower_redlock::LockContexts>();
    #[cfg(feature = "http")]
    cloned::<tower_redlock::LockContexts>();
    each!(shared:
        Lock, EmbeddedNodes, RedlockLayer<fn(&u8) -> String>,
        RedlockService<(), fn(&u8) -> String>,
    );
    unpinned::<Lock>();
    each!(cloned:
        EmbeddedNodes, RedlockLayer<fn(&u8) -> String>, RedlockService<(), fn(&u8) -> String>,
    );
    #[cfg(feature = "config")]
    shared::<tower_redlock::Config>();
    #[cfg(feature = "config")]
    cloned::<tower_redlock::Config>();
    each!(shared: Credentials, AuthToken, TlsOptions);
    each!(cloned: Credentials, AuthToken, TlsOptions);
}

#[test]
fn once_futures_are_sent() {
    use tower_redlock::once::{Once, OnceError, OnceFuture, OnceService, OnceState, OnceStatus};
    use tower_redlock::{
        OnceLayer,
        once::{OnceRequest, UnknownOutcome},
    };
    type Layer = OnceLayer<fn(&u8) -> String, fn(&u8) -> bool>;
    type Service = OnceService<Inner, fn(&u8) -> String>;
    each!(shared: OnceRequest, Layer, Service);
    each!(cloned: OnceRequest, Layer, Service);
    sendable::<OnceFuture<String, std::io::Error>>();
    unpinned::<OnceFuture<String, std::io::Error>>();
    serves::<OnceService<Inner, fn(&String) -> String>, String>();
    each!(shared: Once<u8>, OnceStatus, OnceState, UnknownOutcome);
    cloned::<Once<u8>>();
    error::<OnceError<ResourceError>>();
    let work = OnceError::Work(ResourceError::EmptyName);
    assert_eq!(work.to_string(), ResourceError::EmptyName.to_string());
    let last = Box::new(LockError::Closed);
    let lock =
        OnceError::<ResourceError>::Lock(LockError::WaitTimedOut { waited: Duration::ZERO, last });
    assert_eq!(chain(&lock), ["the lock manager is shut down"]);

    let redlock = Redlock::embedded();
    is_send(&redlock.once("x").run(|_| async { Ok::<_, LockError>(()) }));
    let checked = redlock.once("x").unless(|_| async { Ok::<_, LockError>(false) });
    is_send(&checked.run(|_| async { Ok::<_, LockError>(()) }));
    is_send(&redlock.once("x").status());
    is_send(&redlock.once("x").mark_done());
    is_send(&redlock.once("x").forget());
}

#[cfg(feature = "http")]
#[test]
fn upgrades_are_sent_to_tasks() {
    use tower_redlock::layer::http::{HeldUpgrade, RunUpgrade};
    shared::<HeldUpgrade>();
    unpinned::<HeldUpgrade>();
    sendable::<RunUpgrade<fn(LockContext) -> Inner, Inner>>();
}

#[cfg(feature = "http")]
#[test]
fn once_http_futures_are_sent() {
    use http::Request;
    use http_body_util::Full;
    use tower_redlock::{
        OnceLayer,
        key::{Header, JsonPointer, Key},
        once::{
            Always, OnceService, RestoredBody,
            http::{ByBody, Idempotency, KeptStatuses, Missing, OnceHttp, Scope, ServerErrors},
        },
        reject::{DefaultResponse, RejectReason, Rejection, RequestOutcome},
    };
    type Body = Full<bytes::Bytes>;
    type Over<B> =
        tower::util::BoxCloneSyncService<Request<B>, http::Response<Body>, std::io::Error>;
    type Keeping = OnceHttp<DefaultResponse, Idempotency>;
    each!(shared:
        OnceLayer<Key<Header>, Always, OnceHttp>,
        OnceLayer<Key<JsonPointer>, Always, OnceHttp<DefaultResponse, ByBody>>,
        OnceLayer<Scope, Always, Keeping>, OnceService<Over<Body>, Key<Header>, Always, OnceHttp>,
    );
    each!(cloned:
        OnceLayer<Key<Header>, Always, OnceHttp>, OnceLayer<Scope, Always, Keeping>,
        OnceService<Over<Body>, Key<Header>, Always, Keeping>,
    );
    serves::<OnceService<Over<Body>, Key<Header>, Always, OnceHttp>, Request<Body>>();
    serves::<
        OnceService<
            Over<RestoredBody<Body>>,
            Key<JsonPointer>,
            Always,
            OnceHttp<DefaultResponse, ByBody>,
        >,
        Request<Body>,
    >();
    serves::<OnceService<Over<RestoredBody<Body>>, Scope, Always, Keeping>, Request<Body>>();
    each!(shared:
        Missing, RequestOutcome, ServerErrors, KeptStatuses, Rejection<'static>,
        RejectReason<'static>,
    );
    each!(cloned: KeptStatuses, Rejection<'static>);
}

#[cfg(feature = "tonic")]
#[test]
fn once_grpc_futures_are_sent() {
    use http::Request;
    use http_body_util::Full;
    use tower_redlock::{
        OnceLayer,
        key::{Header, Key},
        once::{
            Always, OnceService,
            grpc::{CallOutcome, OnceGrpc, OnceGrpcBody},
        },
    };
    type Body = Full<bytes::Bytes>;
    type Over =
        tower::util::BoxCloneSyncService<Request<Body>, http::Response<Body>, std::io::Error>;
    type OnReject = fn(tower_redlock::reject::Rejection<'_>) -> tonic::Status;
    each!(shared:
        OnceLayer<Key<Header>, Always, OnceGrpc>, OnceService<Over, Key<Header>, Always, OnceGrpc>,
    );
    each!(cloned:
        OnceLayer<Key<Header>, Always, OnceGrpc>, OnceService<Over, Key<Header>, Always, OnceGrpc>,
    );
    serves::<OnceService<Over, Key<Header>, Always, OnceGrpc<OnReject>>, Request<Body>>();
    sendable::<OnceGrpcBody<Body>>();
    shared::<CallOutcome>();
    cloned::<CallOutcome>();
}

#[cfg(feature = "scheduler")]
#[test]
fn schedules_are_shared() {
    use tower_redlock::{
        Schedule,
        schedule::{ScheduleError, Ticks, WallTime},
    };
    each!(shared:
        Schedule, Ticks<'static>, tower_redlock::scheduler::Claim,
        tower_redlock::scheduler::Missed, tower_redlock::scheduler::Overlap,
    );
    each!(cloned:
        Schedule, Ticks<'static>, tower_redlock::scheduler::Claim,
        tower_redlock::scheduler::Missed, tower_redlock::scheduler::Overlap,
    );
    value::<WallTime>();
    error::<ScheduleError>();
    #[cfg(feature = "cron")]
    shared::<tower_redlock::schedule::CronSchedule>();

    #[cfg(feature = "cron")]
    cloned::<tower_redlock::schedule::CronSchedule>();
}

#[cfg(feature = "scheduler")]
#[test]
fn candidate_runs_are_sent() {
    use tower_redlock::{Leader, Term, leader::Leadership};
    each!(shared: Leader, Term, Leadership);
    each!(cloned: Leader, Term, Leadership);
    let leader = Redlock::embedded().leader("x").on_lost(async |_| {});
    let run = leader.run(|_| std::future::ready(()));
    is_send(&run);
    let again = leader.run_until_stopped(|_| std::future::ready(Ok::<_, String>(())));
    is_send(&again);
    // The lock does not borrow from the candidate.
    drop(leader);

    drop((run, again));
}

#[test]
fn fencing_futures_are_sent() {
    type Layer = FencingLayer<fn(&u8) -> String, fn(&u8) -> u64>;
    type Service = FencingService<Inner, fn(&u8) -> String, fn(&u8) -> u64>;
    each!(shared: Layer, Service);
    each!(cloned: Layer, Service);
    sendable::<fencing::FencingFuture<std::future::Ready<()>>>();
    each!(error: FencingError, TokenError, fencing::FencingServiceError<ResourceError>);

    let error = fencing::FencingServiceError::<ResourceError>::Fencing(
        TokenError::Missing("no".into()).into(),
    );

    assert_eq!((error.to_string().as_str(), chain(&error)), ("no", vec![]));
}

#[cfg(feature = "http")]
#[test]
fn keys_are_shared_and_cloned() {
    use tower_redlock::key::{self, Key};

    fn check<S: Debug + Clone + Send + Sync + 'static>(_: &Key<S>)
    where
        Key<S>: tower_redlock::layer::ResourceKey<axum::extract::Request>,
    {
        shared::<Key<S>>();
        cloned::<Key<S>>();
    }
    fn check_body<S: Debug + Clone + Send + Sync + 'static>(_: &Key<S>)
    where
        Key<S>: key::BodyKey,
    {
        shared::<Key<S>>();
    }
    check(&key::header("a").prefixed("x").hashed().hashed_with("secret").optional());
    check(&key::path_segment(0).only([axum::http::Method::PUT]).when(|_| true));
    check(&key::all((key::query("a"), key::method_and_path())));
    check(&key::query("a").parsed::<u64>());
    check(&key::extension(|name: &String| name.clone()));
    check(&key::from_fn(|_| "x"));
    check(&key::idempotency_key());
    check_body(&key::from_body_fn(|_, _| "x"));
    check_body(&key::json_pointer("/id").prefixed("x").hashed().hashed_with("secret").optional());
    check_body(&key::json_pointer("/id").only([axum::http::Method::PUT]).when(|_| true));
    check_body(&key::all((key::query("a"), key::json_pointer("/id").parsed::<u64>())));
}

#[cfg(feature = "testing")]
#[test]
fn testing_kit_is_shared() {
    use tower_redlock::testing::{ManualClock, ManualSleep, ManualSpawner, Nodes, Replica, Task};

    each!(shared: ManualClock, Nodes, Replica, ManualSpawner, ManualSleep, Task<u8>);
    each!(cloned: ManualClock, Nodes, Replica);
    clock::<ManualClock>();
    each!(unpinned: ManualSleep, Task<Box<dyn Future<Output = ()> + Send>>);
}

#[test]
fn lock_futures_are_sent_and_unpinned() {
    each!(sendable: Acquire, Reply);
    each!(unpinned: Acquire, Lost, Release, Reply);
    each!(shared: Lost, Release);
    cloned::<Lost>();

    let redlock = Redlock::embedded();
    is_send(&redlock.lock("x").into_future());
    is_send(&redlock.lock("x").run(|cx| async move { cx.fencing_token() }));
    is_send(&redlock.lock("x").try_run(|_| async move { Ok::<_, LockError>(()) }));
    is_send(&redlock.ready());
    is_send(&redlock.ready_within(Duration::ZERO));
    is_send(&redlock.lower_max_ttl());
    is_send(&redlock.shutdown());
    is_send(&redlock.inspect("x"));
    is_send(&redlock.key_counts());
    is_send(&redlock.adopt(&redlock));
    sendable::<RedlockFuture<Inner, String>>();
}

#[test]
fn values_are_copied_compared_and_hashed() {
    each!(value: FencingToken, Timestamp);
    each!(shared:
        FencingToken, Nonce, Resource, Released, Vote, Votes, VoteOutcome, Reason, LossCause,
        NodeHealth, NodeState, Role, Blocked, ClockOffset, Memory, Persistence, RestartGuard,
        EvictionGuard, Holder, Op, Answer, LeaseId, SystemClock,
    );
    each!(cloned: Resource, Votes, Holder);
    clock::<SystemClock>();
    object_safe(None, None);
    each!(unwinds: FencingToken, Resource);
}

#[test]
fn errors_are_errors() {
    each!(error:
        LockError, ReleaseError, BuildError, AdoptError, ResourceError, KeyError,
        layer::GuardError<ResourceError>,
    );
}

/// The error type of many tower services does not implement `Error`.
#[test]
fn wrapped_boxes_are_errors_with_causes() {
    type Boxed = tower::BoxError;
    const fn error<T: Error + Send + Sync + 'static>(_: &T) {}
    let boxed = || Boxed::from(LockError::from(ResourceError::NoNames));
    let service = layer::GuardError::Work(boxed());

    error(&service);

    assert_eq!(service.to_string(), boxed().to_string());
    assert_eq!(chain(&service), ["a resource needs at least one name"]);

    let work = tower_redlock::once::OnceError::Work(boxed());
    error(&work);
    assert_eq!(chain(&work), ["a resource needs at least one name"]);

    let fenced = fencing::FencingServiceError::Service(boxed());
    error(&fenced);
    assert_eq!(chain(&fenced), ["a resource needs at least one name"]);

    #[cfg(feature = "http")]
    {
        let body = layer::http::BodyError::Body(boxed());
        error(&body);
        assert_eq!(chain(&body), ["a resource needs at least one name"]);
    }
}

#[tokio::test]
async fn acquire_and_release_share_an_error() {
    async fn both(redlock: &Redlock) -> Result<Released, LockError> {
        Ok(redlock.lock("a").await?.release().await?)
    }

    assert_eq!(both(&Redlock::embedded()).await, Ok(Released::Released));

    let votes = Votes::default();
    let lost = LockError::from(ReleaseError::NoQuorum { votes: votes.clone() });
    assert_eq!(lost, LockError::NoQuorum { votes });

    let foreign = LockError::from(ReleaseError::Foreign);
    assert!(matches!(foreign, LockError::Held { owner: None, .. }), "{foreign:?}");

    let invalid = LockError::from(ReleaseError::InvalidResource(ResourceError::EmptyName));
    assert_eq!(invalid, LockError::InvalidResource(ResourceError::EmptyName));
}

/// The chain of causes below an error, as text.
fn chain(error: &dyn Error) -> Vec<String> {
    let mut causes = Vec::new();
    let mut next = error.source();
    while let Some(cause) = next {
        causes.push(cause.to_string());
        next = cause.source();
    }
    causes
}

#[test]
fn source_texts_are_not_repeated() {
    let invalid = LockError::InvalidResource(ResourceError::EmptyName);
    assert_eq!(chain(&invalid), ["a resource's name is empty"]);
    let held = LockError::Held {
        retry_after: None,
        expires_in: None,
        owner: Some("b".into()),
        lingers: false,
        readers: 0,
        waiter: None,
        slots: Box::default(),
        votes: Votes::default(),
    };
    assert_eq!(chain(&held), [""; 0]);
    let waited = LockError::WaitTimedOut { waited: Duration::ZERO, last: Box::new(held) };
    assert_eq!(chain(&waited), ["held by b"]);

    let text = invalid.to_string();
    let wrapped = layer::GuardError::<ResourceError>::Lock(invalid);
    assert_eq!(wrapped.to_string(), text, "transparent");
    assert_eq!(chain(&wrapped), ["a resource's name is empty"], "its text is not in the chain too");
    let service = layer::GuardError::Work(LockError::from(ResourceError::NoNames));
    assert_eq!(chain(&service), ["a resource needs at least one name"]);

    let system = BuildError::System(Arc::new(std::io::Error::other("no threads left")));
    assert_eq!(chain(&system), ["no threads left"]);
}

#[tokio::test]
async fn error_texts_are_lower_case() {
    let redlock = Redlock::embedded();
    let _lock = redlock.lock("x").await.unwrap();
    let zero = redlock.lock("y").ttl(Duration::ZERO).await;
    let long = redlock.lock("y").ttl(Duration::MAX).await;
    let none = redlock.lock("").await;
    let errors = [redlock.lock("x").await, zero, long, none].map(Result::unwrap_err);

    for error in errors {
        let text = error.to_string();
        assert!(text.starts_with(char::is_lowercase) && !text.ends_with('.'), "{text}");
    }
}

/// All `tracing` events are sent in one place, which checks that no mutex is held.
#[test]
fn events_are_sent_by_one_module() {
    let mut found = Vec::new();
    let mut folders = vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))];
    let mut files = 0;

    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files += 1;
                let text = std::fs::read_to_string(&path).unwrap();
                let levels = ["error", "warn", "info", "debug", "trace", "event"];
                let is_direct = |level: &str| text.contains(&format!("tracing::{level}!"));
                if levels.into_iter().any(is_direct) {
                    found.push(path);
                }
            }
        }
    }

    assert!(files > 100, "{files}");
    assert!(found.is_empty(), "to be sent by crate::log: {found:?}");
}
