use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{
    OnceRequest,
    record::{Recording, record},
    terms,
};
use crate::{
    error::LockError,
    lock::{Holder, records},
    protocol::{Answer, Record},
    quorum::records::RecordStatus,
    token::FencingToken,
};

/// How a key stands.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OnceStatus {
    /// What it is.
    pub state: OnceState,
    /// Who did it, does it, or began it, as that client calls itself.
    pub by: Option<Arc<str>>,
    /// When that was recorded, or begun, by that client's wall clock.
    pub since: Option<SystemTime>,
    /// For how long still, if nothing renews it.
    pub remaining: Option<Duration>,
    /// The fencing token under which it was; zero without fencing.
    pub token: FencingToken,
}

/// What a key that is not free is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnceState {
    /// Somebody holds its lock, and does the work.
    InProgress,
    /// The work is done.
    Done,
    /// The work was begun and stopped in the middle, and the key is
    /// [held](super::Unknown::Hold) for somebody to decide.
    Unknown,
}

impl<C> OnceRequest<C> {
    /// How the key stands; `None` if it is free. Nothing is changed, but that nodes are told of work
    /// that is done where they have forgotten it.
    ///
    /// # Errors
    ///
    /// [`LockError::NoQuorum`] where too few nodes answered to say, and
    /// [`LockError::InvalidResource`].
    ///
    /// # Cancel safety
    ///
    /// Safe: it only asks.
    pub async fn status(&self) -> Result<Option<OnceStatus>, LockError> {
        let resource = self.resource.clone()?;
        let answers = records::read(&self.core, &terms::name(&resource)).await;
        let of = |state, record: &Record, remaining| OnceStatus {
            state,
            by: Some(Arc::clone(&record.lease.owner)),
            since: UNIX_EPOCH.checked_add(record.lease.since),
            remaining: Some(remaining),
            token: FencingToken::new(record.lease.token),
        };
        let begun = match records::status(&answers) {
            RecordStatus::Done { record, remaining } => {
                return Ok(Some(of(OnceState::Done, &record, remaining)));
            }
            RecordStatus::TooFew => return Err(records::no_quorum(&self.core, &answers)),
            RecordStatus::Nothing => None,
            RecordStatus::Unknown { record, remaining, .. } => {
                Some(of(OnceState::Unknown, &record, remaining))
            }
        };
        // Whose work runs has a record that it has begun.
        let holder = crate::lock::inspect(&self.core, &resource).await?;
        Ok(match (holder, begun) {
            (Some(holder), None) => Some(in_progress(holder)),
            (Some(holder), Some(_)) if holder.is_quorum => Some(in_progress(holder)),
            (_, begun) => begun,
        })
    }

    /// Has the nodes keep that the work is done, though it did not run here: for a person or a
    /// reconciler who knows that its effect is there. `retain` and the lock's settings apply.
    ///
    /// # Errors
    ///
    /// [`LockError::Held`] while somebody does the work; [`LockError::NoQuorum`] and
    /// [`LockError::Lost`] where too few nodes keep it: run it again then.
    /// [`LockError::TooManyRecords`] where it is one too many for this manager.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives the lock back; whether the nodes keep the record is not known.
    pub async fn mark_done(self) -> Result<(), LockError> {
        self.terms.check()?;
        let lock = self.lock.await?;
        let lease = Arc::clone(lock.lease());
        records::reserve(&lease)?;
        let done = record(&lease, true, Arc::from([]));
        Recording::start(lease, done, self.terms.retain).await
    }

    /// Has the nodes forget that the work is done, or that it was begun: it runs again at the next
    /// request. Tells whether there was something to forget.
    ///
    /// A request for the key that is being answered meanwhile may bring the record back: look at
    /// [`status`](Self::status) afterwards, and forget again.
    ///
    /// # Errors
    ///
    /// [`LockError::Held`] while somebody does the work; [`LockError::NoQuorum`] where not every
    /// node answered: one that still keeps that the work is done tells all others. Run it again when
    /// all of them can be reached.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives the lock back; some nodes may have forgotten, others not.
    pub async fn forget(self) -> Result<bool, LockError> {
        let lock = self.lock.await?;
        let (core, name) = (&self.core, terms::name(lock.resource()));
        let kept = records::read_all(core, &name).await;
        if kept.iter().any(Result::is_err) {
            return Err(records::no_quorum(core, &kept));
        }
        let mut nonces = Vec::new();
        for answer in kept.iter().flatten() {
            if let Answer::Recorded(Some((record, _))) = answer
                && !nonces.contains(&record.lease.nonce)
            {
                nonces.push(record.lease.nonce);
            }
        }
        for nonce in &nonces {
            let answers = records::forget_and_hear(core, &name, *nonce).await;
            if answers.iter().any(Result::is_err) {
                return Err(records::no_quorum(core, &answers));
            }
        }
        Ok(!nonces.is_empty())
    }
}

fn in_progress(holder: Holder) -> OnceStatus {
    OnceStatus {
        state: OnceState::InProgress,
        by: holder.owner,
        since: holder.since,
        remaining: holder.remaining,
        token: holder.token,
    }
}
