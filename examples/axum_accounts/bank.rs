//! The accounts. They stand for a database: they know nothing of who holds a lock, but check
//! tokens, and count who is at work on an account at the same time.

use std::{
    convert::Infallible,
    fmt::Write,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use futures_util::{Stream, stream};
use tower_redlock::{FencingToken, LockContext};

/// Accounts are numbered from 1 to this.
pub(crate) const ACCOUNTS: usize = 5;
pub(crate) const OPENING_BALANCE: i64 = 1_000;
/// What passes between reading and writing: two at once would both start from the same balances.
const THINKING: Duration = Duration::from_millis(2);
/// A statement goes out a few lines at a time.
const LINES_AT_ONCE: usize = 8;

#[derive(Clone, Default)]
pub(crate) struct Bank(Arc<Books>);

#[derive(Default)]
struct Books {
    ledgers: Mutex<[Ledger; ACCOUNTS]>,
    /// How many are at work on each account.
    visitors: [AtomicUsize; ACCOUNTS],
    overlaps: AtomicU64,
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
    /// The lock is lost, or a holder with a newer token has written already. Nothing was done.
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

    /// All of the changes, or none: reads, thinks, and writes.
    pub(crate) async fn change(
        &self,
        changes: &[(usize, i64)],
        lock: &LockContext,
    ) -> Result<(), Refused> {
        let _visits =
            changes.iter().map(|(id, _)| self.enter(*id)).collect::<Result<Vec<_>, _>>()?;
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
        Ok(stream::unfold(Some((0, bank, visit)), |state| async move {
            let (sent, bank, visit) = state?;
            tokio::time::sleep(THINKING).await;
            let ledger = bank.read(visit.id).ok()?;
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

    /// How often two requests were at work on one account.
    pub(crate) fn overlaps(&self) -> u64 {
        self.0.overlaps.load(SeqCst)
    }

    /// How many writes came with a token that was not above the last one.
    pub(crate) fn stale_writes(&self) -> u64 {
        self.0.stale.load(SeqCst)
    }

    fn ledgers(&self) -> MutexGuard<'_, [Ledger; ACCOUNTS]> {
        self.0.ledgers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, id: usize) -> Result<Ledger, Refused> {
        self.ledgers().get(index(id)).cloned().ok_or(Refused::NoSuchAccount)
    }

    /// In one transaction, `UPDATE … WHERE token < $token`: each lock brings a greater token than
    /// the one before.
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
        let visitors = self.0.visitors.get(index(id)).ok_or(Refused::NoSuchAccount)?;
        if visitors.fetch_add(1, SeqCst) > 0 {
            self.0.overlaps.fetch_add(1, SeqCst);
        }
        Ok(Visit { bank: self.clone(), id })
    }
}

/// Of account 0, which there is not, none.
const fn index(id: usize) -> usize {
    id.wrapping_sub(1)
}

/// Somebody is at work on an account; leaves when it is dropped, so also where it is cancelled.
struct Visit {
    bank: Bank,
    id: usize,
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.bank.0.visitors[index(self.id)].fetch_sub(1, SeqCst);
    }
}
