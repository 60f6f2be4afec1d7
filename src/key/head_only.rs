//! The sources that need only the head of a request.

use super::source::sealed;

macro_rules! head_only {
    ($([$($generics:tt)*] $source:ty),* $(,)?) => {$(
        impl<$($generics)*> sealed::HeadOnly for $source {}
    )*};
}
head_only!(
    [] super::Constant,
    [] super::Header,
    [] super::IdempotencyKey,
    [] super::MethodAndPath,
    [] super::PathSegment,
    [] super::Query,
    [F] super::FromFn<F>,
    [T, F] super::Extension<T, F>,
    [S: sealed::HeadOnly] super::Hashed<S>,
    [S: sealed::HeadOnly] super::HashedWith<S>,
    [S: sealed::HeadOnly] super::Only<S>,
    [S: sealed::HeadOnly] super::Optional<S>,
    [S: sealed::HeadOnly, T] super::Parsed<S, T>,
    [S: sealed::HeadOnly] super::Prefixed<S>,
    [S: sealed::HeadOnly, P] super::When<S, P>,
);
#[cfg(feature = "axum")]
head_only!([] super::PathParam);
