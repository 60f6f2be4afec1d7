//! The statuses whose responses are stored.

use std::{collections::BTreeSet, fmt, sync::Arc};

use http::StatusCode;

/// The statuses whose responses are stored and replayed. After another status the key is free.
///
/// By default those of [`successes`](Self::successes).
///
/// ```
/// use http::StatusCode;
/// use tower_redlock::once::http::KeptStatuses;
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
    /// 2xx and 3xx. The default.
    ///
    /// A 4xx may come from code before the handler: a router without the route (404, 405), an extractor
    /// (400, 415, 422), a check of credentials or rates (401, 403, 429). If stored, it would be replayed
    /// for [`retain`](crate::OnceLayer::retain), even after its cause has gone. Not storing it is safe if
    /// a handler that answers 4xx has had no effect. Otherwise [add](Self::with) the status, or mark the
    /// response with [`RequestOutcome::Done`](crate::reject::RequestOutcome::Done).
    pub fn successes() -> Self {
        Self(Arc::new((200..400).collect()))
    }

    /// 2xx, 3xx and 4xx. With [`ServerErrors::Keep`](crate::once::http::ServerErrors::Keep) every response is
    /// stored, as Stripe does once its endpoint runs.
    ///
    /// For services that refuse requests *outside* of this layer: a 401 or 429 from inside would be
    /// replayed. [Remove](Self::without) such statuses:
    ///
    /// ```
    /// use http::StatusCode;
    /// use tower_redlock::once::http::KeptStatuses;
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

    /// Adds a status.
    #[must_use]
    pub fn with(mut self, status: StatusCode) -> Self {
        Arc::make_mut(&mut self.0).insert(status.as_u16());
        self
    }

    /// Removes a status.
    #[must_use]
    pub fn without(mut self, status: StatusCode) -> Self {
        Arc::make_mut(&mut self.0).remove(&status.as_u16());
        self
    }

    /// Returns whether responses with this status are stored.
    pub fn contains(&self, status: StatusCode) -> bool {
        self.0.contains(&status.as_u16())
    }

    /// Returns the first and last status of each contiguous range.
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
