//! One test for each layer of tower and tower-http, around and inside each layer of this crate.

use std::{future::ready, time::Duration};

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use tower::{
    BoxError, ServiceBuilder,
    buffer::BufferLayer,
    filter::{AsyncFilterLayer, FilterLayer},
    limit::{ConcurrencyLimitLayer, GlobalConcurrencyLimitLayer, RateLimitLayer},
    load_shed::LoadShedLayer,
    retry::{Policy, RetryLayer},
    spawn_ready::SpawnReadyLayer,
    timeout::TimeoutLayer,
    util::{
        AndThenLayer, MapErrLayer, MapFutureLayer, MapRequestLayer, MapResponseLayer,
        MapResultLayer, ThenLayer, option_layer,
    },
};
use tower_http::{
    add_extension::AddExtensionLayer,
    auth::AsyncRequireAuthorizationLayer,
    catch_panic::CatchPanicLayer,
    compression::CompressionLayer,
    cors::CorsLayer,
    decompression::{DecompressionLayer, RequestDecompressionLayer},
    follow_redirect::FollowRedirectLayer,
    limit::RequestBodyLimitLayer,
    map_request_body::MapRequestBodyLayer,
    map_response_body::MapResponseBodyLayer,
    metrics::{InFlightRequestsLayer, in_flight_requests::InFlightRequestsCounter},
    normalize_path::NormalizePathLayer,
    propagate_header::PropagateHeaderLayer,
    request_id::{MakeRequestUuid, PropagateRequestIdLayer, SetRequestIdLayer},
    sensitive_headers::SetSensitiveHeadersLayer,
    set_header::{SetRequestHeaderLayer, SetResponseHeaderLayer},
    set_status::SetStatusLayer,
    timeout::{RequestBodyTimeoutLayer, ResponseBodyTimeoutLayer},
    trace::TraceLayer,
    validate_request::ValidateRequestHeaderLayer,
};

use tower_redlock::{FencingLayer, key};

use crate::composition::echo::{Echo, calls, grpc, http, is_served, payments, plain, webhooks};

const SECOND: Duration = Duration::from_secs(1);

/// The layer around one of this crate's layers.
macro_rules! over {
    ($layer:expr => $($ours:ident)*) => {
        $(drop(is_served(ServiceBuilder::new().layer($layer).layer($ours()).service(Echo)));)*
        let ours = FencingLayer::new(key::method_and_path()).http();
        drop(is_served(ServiceBuilder::new().layer($layer).layer(ours).service(Echo)));
    };
}

/// The layer inside one of this crate's layers.
macro_rules! under {
    ($layer:expr => $($ours:ident)*) => {
        $(drop(is_served(ServiceBuilder::new().layer($ours()).layer($layer).service(Echo)));)*
        let ours = FencingLayer::new(key::method_and_path()).http();
        drop(is_served(ServiceBuilder::new().layer(ours).layer($layer).service(Echo)));
    };
}

macro_rules! both {
    ($($name:ident: $layer:expr;)*) => {$(
        #[tokio::test]
        async fn $name() {
            over!($layer => plain http grpc webhooks calls payments);
            under!($layer => plain http grpc webhooks calls payments);
        }
    )*};
}

both! {
    add_extension: AddExtensionLayer::new(7_u8);
    and_then: AndThenLayer::new(|answer| ready(Ok::<_, BoxError>(answer)));
    buffer: BufferLayer::new(8);
    catch_panic: CatchPanicLayer::new();
    compression: CompressionLayer::new();
    concurrency_limit: ConcurrencyLimitLayer::new(8);
    cors: CorsLayer::permissive();
    decompression: DecompressionLayer::new();
    filter: FilterLayer::new(Ok::<_, BoxError>);
    filter_async: AsyncFilterLayer::new(|request| ready(Ok::<_, BoxError>(request)));
    follow_redirect: FollowRedirectLayer::new();
    global_concurrency_limit: GlobalConcurrencyLimitLayer::new(8);
    http_timeout: tower_http::timeout::TimeoutLayer::with_status_code(
        StatusCode::REQUEST_TIMEOUT,
        SECOND,
    );
    in_flight_requests: InFlightRequestsLayer::new(InFlightRequestsCounter::new());
    load_shed: LoadShedLayer::new();
    map_err: MapErrLayer::new(BoxError::from);
    map_future: MapFutureLayer::new(|future| future);
    map_request: MapRequestLayer::new(|request| request);
    map_request_body: MapRequestBodyLayer::new(|body| body);
    map_response: MapResponseLayer::new(|answer| answer);
    map_response_body: MapResponseBodyLayer::new(|body| body);
    map_result: MapResultLayer::new(|result| result);
    no_layer: option_layer(None::<ConcurrencyLimitLayer>);
    normalize_path: NormalizePathLayer::trim_trailing_slash();
    propagate_header: PropagateHeaderLayer::new(HeaderName::from_static("x-id"));
    propagate_request_id: PropagateRequestIdLayer::x_request_id();
    request_body_limit: RequestBodyLimitLayer::new(8);
    request_body_timeout: RequestBodyTimeoutLayer::new(SECOND);
    request_decompression: RequestDecompressionLayer::new();
    response_body_timeout: ResponseBodyTimeoutLayer::new(SECOND);
    retry: RetryLayer::new(Never);
    sensitive_headers: SetSensitiveHeadersLayer::new([http::header::AUTHORIZATION]);
    set_request_header: SetRequestHeaderLayer::overriding(X, HeaderValue::from_static("1"));
    set_request_id: SetRequestIdLayer::x_request_id(MakeRequestUuid);
    set_response_header: SetResponseHeaderLayer::overriding(X, HeaderValue::from_static("1"));
    set_status: SetStatusLayer::new(StatusCode::ACCEPTED);
    then: ThenLayer::new(ready);
    timeout: TimeoutLayer::new(SECOND);
    trace: TraceLayer::new_for_http();
    validate_request: ValidateRequestHeaderLayer::accept("text/plain");
}

const X: HeaderName = HeaderName::from_static("x-set");

/// Responds with layers that need a default for the body.
#[tokio::test]
async fn require_authorization() {
    async fn authorize<B>(request: Request<B>) -> Result<Request<B>, Response<Full<Bytes>>> {
        Ok(request)
    }
    under!(AsyncRequireAuthorizationLayer::new(authorize) => plain http grpc webhooks calls payments);
}

/// These layers are not `Clone`, so they are outermost, or have a buffer around them.
#[tokio::test]
async fn services_that_are_not_cloned() {
    over!(RateLimitLayer::new(8, SECOND) => plain http grpc webhooks calls payments);
    over!(SpawnReadyLayer::new() => plain http grpc webhooks calls payments);
    under!(ServiceBuilder::new().buffer(8).rate_limit(8, SECOND).into_inner() => plain http grpc webhooks calls payments);
}

/// A policy that never retries.
#[derive(Clone)]
struct Never;

impl<B, A, E> Policy<Request<B>, A, E> for Never {
    type Future = std::future::Ready<()>;

    fn retry(&mut self, _: &mut Request<B>, _: &mut Result<A, E>) -> Option<Self::Future> {
        None
    }

    fn clone_request(&mut self, _: &Request<B>) -> Option<Request<B>> {
        None
    }
}

/// Bodies that are not `Unpin`.
#[tokio::test]
async fn bodies_that_do_not_move() {
    let service = ServiceBuilder::new()
        .layer(RequestBodyTimeoutLayer::new(SECOND))
        .layer(payments())
        .layer(ResponseBodyTimeoutLayer::new(SECOND))
        .service(Echo);
    let request = Request::post("/").header("idempotency-key", "k").body(Body::from("x")).unwrap();
    let answer = tower::ServiceExt::oneshot(is_served(service), request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
}
