//! The statuses whose responses are stored.

use std::{collections::BTreeSet, ops::Range};

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptStatuses {
    preset: Range<u16>,
    /// The statuses that differ from the preset.
    changed: BTreeSet<u16>,
}

impl KeptStatuses {
    /// 2xx, and 303. The default.
    ///
    /// A 303 leads to the result of a request that was done (RFC 9110, section 15.4.4). After another 3xx the
    /// client sends the request elsewhere: nothing was done here, and where it leads may change.
    ///
    /// A 4xx may come from code before the handler: a router without the route (404, 405), an extractor
    /// (400, 415, 422), a check of credentials or rates (401, 403, 429). If stored, it would be replayed
    /// for [`retain`](crate::OnceLayer::retain), even after its cause has gone. Not storing it is safe if
    /// a handler that answers 4xx has had no effect. Otherwise [add](Self::with) the status, or mark the
    /// response with [`RequestOutcome::Done`](crate::reject::RequestOutcome::Done).
    pub fn successes() -> Self {
        Self { preset: 200..300, changed: BTreeSet::from([StatusCode::SEE_OTHER.as_u16()]) }
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
        Self { preset: 200..500, changed: BTreeSet::new() }
    }

    /// Adds a status.
    #[must_use]
    pub fn with(self, status: StatusCode) -> Self {
        self.set(status, true)
    }

    /// Removes a status.
    #[must_use]
    pub fn without(self, status: StatusCode) -> Self {
        self.set(status, false)
    }

    fn set(mut self, status: StatusCode, is_kept: bool) -> Self {
        if self.contains(status) != is_kept && !self.changed.remove(&status.as_u16()) {
            self.changed.insert(status.as_u16());
        }
        debug_assert_eq!(self.contains(status), is_kept);
        self
    }

    /// Returns whether responses with this status are stored.
    pub fn contains(&self, status: StatusCode) -> bool {
        let status = status.as_u16();
        self.preset.contains(&status) != self.changed.contains(&status)
    }
}

/// [`successes`](Self::successes).
impl Default for KeptStatuses {
    fn default() -> Self {
        Self::successes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_changed_one_by_one() {
        let is_kept = |kept: &KeptStatuses, status| {
            kept.contains(StatusCode::from_u16(status).expect("a status"))
        };
        let successes = KeptStatuses::default();
        assert!([200, 299, 303].iter().all(|status| is_kept(&successes, *status)));
        assert!(
            [199, 301, 302, 307, 308, 400, 500].iter().all(|status| !is_kept(&successes, *status))
        );
        let kept = successes.clone().with(StatusCode::PAYMENT_REQUIRED).without(StatusCode::OK);
        assert!([201, 303, 402].iter().all(|status| is_kept(&kept, *status)));
        assert!([200, 400, 404].iter().all(|status| !is_kept(&kept, *status)));
        let all = KeptStatuses::all().without(StatusCode::UNAUTHORIZED);
        assert!(is_kept(&all, 404) && !is_kept(&all, 401) && !is_kept(&all, 500));
    }

    #[test]
    fn last_change_of_a_status_wins() {
        let (ok, declined) = (StatusCode::OK, StatusCode::PAYMENT_REQUIRED);
        let kept = KeptStatuses::successes();
        let again = kept.clone().with(ok).with(declined).with(declined).without(declined);
        assert_eq!(again, kept);
        assert_eq!(kept.clone().without(ok).without(ok).with(ok), kept);
    }
}
