//! The accounts. They represent a database that checks tokens, and detect two requests for one
//! account at the same time.

use std::{
    convert::Infallible,
    fmt::Write,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use futures_util::{Stream, stream};
use tower_redlock::{FencingToken, LockContext};

use crate::stories::overlap::{OverlapCounter, Visit};

/// Accounts are numbered from 1 to this.
pub(crate) const ACCOUNTS: usize = 5;
pub(crate) const OPENING_BALANCE: i64 = 1_000;
/// Time between reading and writing: two at once would both start from the same balances.
const THINKING: Duration = Duration::from_millis(2);
/// The number of lines in a frame of a statement.
const LINES_AT_ONCE: usize = 8;

#[derive(Clone, Default)]
pub(crate) struct Bank(Arc<Books>);

#[derive(Default)]
struct Books {
    ledgers: Mutex<[Ledger; ACCOUNTS]>,
    users: [OverlapCounter; ACCOUNTS],
    stale: AtomicU64,
}

#[derive(Clone, Default)]
struct Ledger {
    /// All changes since the opening.
    changes: Vec<i64>,
    /// The token of the last one.
    token: FencingToken,
}

impl Ledger {
    fn balance(&self) -> i64 {
        OPENING_BALANCE + self.changes.iter().sum::<i64>()
    }
}

pub(crate) enum Refused {
    NoSuchAccount,
    TooLittleMoney,
    SameAccount,
    /// The lock is lost, or a holder with a newer token has already written. Nothing was done.
    Overtaken,
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        match self {
            Self::NoSuchAccount => (StatusCode::NOT_FOUND, "no such account\n").into_response(),
            Self::TooLittleMoney => {
                (StatusCode::UNPROCESSABLE_ENTITY, "too little money\n").into_response()
            }
            Self::SameAccount => {
                (StatusCode::UNPROCESSABLE_ENTITY, "from and to are one account\n").into_response()
            }
            Self::Overtaken => {
                (StatusCode::PRECONDITION_FAILED, "overtaken by a newer lock\n").into_response()
            }
        }
    }
}

impl Bank {
    pub(crate) fn balance(&self, id: usize) -> Result<i64, Refused> {
        Ok(self.read(id)?.balance())
    }

    /// Makes all of the changes, or none: reads, waits, and writes.
    pub(crate) async fn change(
        &self,
        changes: &[(usize, i64)],
        lock: &LockContext,
    ) -> Result<(), Refused> {
        let visits = changes.iter().map(|(id, _)| self.enter(*id));
        let _visits = visits.collect::<Result<Vec<_>, _>>()?;
        let mut new = Vec::new();
        for (id, amount) in changes {
            let mut ledger = self.read(*id)?;
            ledger.changes.push(*amount);
            if ledger.balance() < 0 {
                return Err(Refused::TooLittleMoney);
            }
            new.push((*id, ledger));
        }
        tokio::time::sleep(THINKING).await;
        lock.ensure_valid().map_err(|_| Refused::Overtaken)?;
        self.write(new, lock.fencing_token())
    }

    /// A line for each change, read while they are sent, and the balance.
    pub(crate) fn statement(
        &self,
        id: usize,
    ) -> Result<impl Stream<Item = Result<String, Infallible>> + use<>, Refused> {
        let (bank, visit) = (self.clone(), self.enter(id)?);
        Ok(stream::unfold(Some((0, bank, visit)), move |state| async move {
            let (sent, bank, visit) = state?;
            tokio::time::sleep(THINKING).await;
            let ledger = bank.read(id).ok()?;
            let mut text = String::new();
            for change in ledger.changes.iter().skip(sent).take(LINES_AT_ONCE) {
                let _ = writeln!(text, "{change:+}");
            }
            let sent = sent + LINES_AT_ONCE;
            if sent < ledger.changes.len() {
                return Some((Ok(text), Some((sent, bank, visit))));
            }
            let _ = writeln!(text, "balance {}", ledger.balance());
            Some((Ok(text), None))
        }))
    }

    /// The number of requests that worked on an account beside another one.
    pub(crate) fn overlaps(&self) -> u64 {
        self.0.users.iter().map(OverlapCounter::overlaps).sum()
    }

    /// The number of writes with a token that was not above the last one.
    pub(crate) fn stale_writes(&self) -> u64 {
        self.0.stale.load(SeqCst)
    }

    fn ledgers(&self) -> MutexGuard<'_, [Ledger; ACCOUNTS]> {
        self.0.ledgers.lock().unwrap()
    }

    fn read(&self, id: usize) -> Result<Ledger, Refused> {
        self.ledgers().get(index(id)).cloned().ok_or(Refused::NoSuchAccount)
    }

    /// As `UPDATE … WHERE token < $token` in one transaction.
    fn write(&self, new: Vec<(usize, Ledger)>, token: FencingToken) -> Result<(), Refused> {
        let mut ledgers = self.ledgers();
        if new.iter().any(|(id, _)| token <= ledgers[index(*id)].token) {
            self.0.stale.fetch_add(1, SeqCst);
            return Err(Refused::Overtaken);
        }
        for (id, ledger) in new {
            ledgers[index(id)] = Ledger { token, ..ledger };
        }
        Ok(())
    }

    fn enter(&self, id: usize) -> Result<Visit, Refused> {
        self.0.users.get(index(id)).map(OverlapCounter::enter).ok_or(Refused::NoSuchAccount)
    }
}

/// Out of range for account 0, which does not exist.
const fn index(id: usize) -> usize {
    id.wrapping_sub(1)
}
