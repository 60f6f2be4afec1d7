//! The statuses whose responses are stored.

use std::{collections::BTreeSet, fmt, sync::Arc};

use http::StatusCode;

use super::Idempotency;
use crate::once::{OnceLayer, http::Http};

/// The statuses whose responses are kept, and sent again to whoever repeats the request. After a
/// response of another status the key is free.
///
/// By default those of [`successes`](Self::successes).
///
/// ```
/// use http::StatusCode;
/// use tower_redlock::once::KeptStatuses;
///
/// // A card that is declined is declined for good, and an order that makes no sense stays so.
/// let kept = KeptStatuses::successes()
///     .with(StatusCode::PAYMENT_REQUIRED)
///     .with(StatusCode::UNPROCESSABLE_ENTITY);
/// assert!(kept.contains(StatusCode::CREATED) && kept.contains(StatusCode::PAYMENT_REQUIRED));
/// assert!(!kept.contains(StatusCode::NOT_FOUND));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct KeptStatuses(Arc<BTreeSet<u16>>);

impl KeptStatuses {
    /// 2xx and 3xx: what the handler says that it did. The default.
    ///
    /// A 4xx may come from what stands before the handler: a router of a version that lacks the route
    /// (404, 405), an extractor that does not read the body (400, 415, 422), a check of credentials or
    /// rates (401, 403, 429). Kept, it would be the answer until [`retain`](crate::OnceLayer::retain)
    /// is over, also when its cause has gone; not kept, the same request is refused again, or runs.
    /// That is safe as long as a handler that answers 4xx has done nothing. One that has (it charged a
    /// card in vain, and keeps count of that) needs that status [here](Self::with), or says so of the
    /// one response by [`RequestOutcome::Done`](crate::RequestOutcome::Done).
    pub fn successes() -> Self {
        Self(Arc::new((200..400).collect()))
    }

    /// 2xx, 3xx and 4xx. With [`ServerErrors::Keep`](crate::once::ServerErrors::Keep) every answer is
    /// kept, as Stripe does once its endpoint has begun to run.
    ///
    /// For services that turn requests away *outside* of this layer only: where parameters,
    /// credentials or rates are checked behind it, a 401 or 429 is the answer until the retention is
    /// over. Take out what is [no answer](Self::without):
    ///
    /// ```
    /// use http::StatusCode;
    /// use tower_redlock::once::KeptStatuses;
    ///
    /// let kept = KeptStatuses::all()
    ///     .without(StatusCode::UNAUTHORIZED)
    ///     .without(StatusCode::TOO_MANY_REQUESTS);
    /// # assert!(!kept.contains(StatusCode::UNAUTHORIZED));
    /// # assert!(kept.contains(StatusCode::NOT_FOUND));
    /// ```
    ///
    /// Source: Stripe's API reference, *Idempotent requests*: the status and body of the first request
    /// are saved whether it succeeds or fails, 500 included, but not where its parameters are refused
    /// or another request with the key runs.
    pub fn all() -> Self {
        Self(Arc::new((200..500).collect()))
    }

    /// One more.
    #[must_use]
    pub fn with(mut self, status: StatusCode) -> Self {
        Arc::make_mut(&mut self.0).insert(status.as_u16());
        self
    }

    /// One less.
    #[must_use]
    pub fn without(mut self, status: StatusCode) -> Self {
        Arc::make_mut(&mut self.0).remove(&status.as_u16());
        self
    }

    /// Whether responses with this status are kept.
    pub fn contains(&self, status: StatusCode) -> bool {
        self.0.contains(&status.as_u16())
    }

    /// The first and the last of each row of them.
    fn ranges(&self) -> Vec<(u16, u16)> {
        let mut ranges: Vec<(u16, u16)> = Vec::new();
        for &status in self.0.iter() {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == status => *last = status,
                _ => ranges.push((status, status)),
            }
        }
        ranges
    }
}

/// [`successes`](Self::successes).
impl Default for KeptStatuses {
    fn default() -> Self {
        Self::successes()
    }
}

impl fmt::Debug for KeptStatuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeptStatuses(")?;
        for (i, (first, last)) in self.ranges().into_iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
        }
        f.write_str(")")
    }
}

impl<K, C, R, St> OnceLayer<K, C, Http<R, Idempotency<St>>> {
    /// The statuses whose responses are kept. Default: [`KeptStatuses::successes`], 2xx and 3xx.
    ///
    /// [`complete_when`](OnceLayer::complete_when) takes the place of this. A 5xx that is not among them
    /// is what [`server_errors`](OnceLayer::server_errors) says.
    ///
    /// ```
    /// use http::StatusCode;
    /// use tower_redlock::{OnceLayer, Redlock, once::{KeptStatuses, Scope}};
    ///
    /// # let _layer =
    /// OnceLayer::idempotency(Redlock::embedded(), "payments")
    ///     .scope(Scope::none())
    ///     .kept_statuses(KeptStatuses::successes().with(StatusCode::PAYMENT_REQUIRED));
    /// ```
    pub fn kept_statuses(mut self, statuses: KeptStatuses) -> Self {
        self.face.mode.kept = statuses;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(statuses: &KeptStatuses) -> String {
        format!("{statuses:?}")
    }

    #[test]
    fn presets_are_changed_one_by_one() {
        let kept = KeptStatuses::default();
        assert_eq!(shown(&kept), "KeptStatuses(200-399)");
        let kept = kept.with(StatusCode::PAYMENT_REQUIRED).with(StatusCode::BAD_GATEWAY);
        assert_eq!(shown(&kept), "KeptStatuses(200-399, 402, 502)");
        assert_eq!(shown(&kept.without(StatusCode::OK)), "KeptStatuses(201-399, 402, 502)");
        let kept = KeptStatuses::all().without(StatusCode::UNAUTHORIZED);
        assert_eq!(shown(&kept), "KeptStatuses(200-400, 402-499)");
        assert!(kept.contains(StatusCode::NOT_FOUND) && !kept.contains(StatusCode::CONTINUE));
    }
}
