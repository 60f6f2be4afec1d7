//! The accounts. They represent a database that checks tokens.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{
            AtomicU64,
            Ordering::{Relaxed, SeqCst},
        },
    },
    time::Duration,
};

use tower_redlock::FencingToken;

/// Accounts are numbered from 1 to this.
pub(crate) const ACCOUNTS: usize = 5;
pub(crate) const OPENING_BALANCE: i64 = 1_000_000;
/// Default time between reading a balance and writing it: two concurrent withdrawals would start
/// from the same balance, and one would be lost.
pub(crate) const THINKING: Duration = Duration::from_millis(5);

#[derive(Default)]
pub(crate) struct Ledger {
    accounts: [Account; ACCOUNTS],
    stale: AtomicU64,
}

#[derive(Default)]
struct Account {
    users: OverlapCounter,
    row: Mutex<Row>,
}

struct Row {
    balance: i64,
    /// The token of the last write.
    token: FencingToken,
}

impl Default for Row {
    fn default() -> Self {
        Self { balance: OPENING_BALANCE, token: FencingToken::default() }
    }
}

pub(crate) enum Refused {
    NoSuchAccount,
    /// A holder with a newer token has already written.
    StaleToken,
}

impl Ledger {
    /// Takes 1 from an account: reads, waits, and writes. Returns the new balance.
    pub(crate) async fn withdraw(
        &self,
        id: usize,
        token: FencingToken,
        thinking: Duration,
    ) -> Result<i64, Refused> {
        let account = self.account(id)?;
        let _visit = account.users.enter();
        let balance = account.balance();
        tokio::time::sleep(thinking).await;
        self.write(account, balance - 1, token)
    }

    pub(crate) fn balance(&self, id: usize) -> Result<i64, Refused> {
        self.account(id).map(Account::balance)
    }

    /// Returns the number of withdrawals that overlapped another one on the same account.
    pub(crate) fn overlaps(&self) -> u64 {
        self.accounts.iter().map(|account| account.users.overlaps()).sum()
    }

    /// The number of writes with a token that was not above the last one.
    pub(crate) fn stale_writes(&self) -> u64 {
        self.stale.load(Relaxed)
    }

    fn account(&self, id: usize) -> Result<&Account, Refused> {
        id.checked_sub(1).and_then(|i| self.accounts.get(i)).ok_or(Refused::NoSuchAccount)
    }

    /// Writes like `UPDATE … WHERE token < $token`.
    fn write(&self, account: &Account, balance: i64, token: FencingToken) -> Result<i64, Refused> {
        let mut row = account.row.lock().unwrap_or_else(PoisonError::into_inner);
        if token <= row.token {
            self.stale.fetch_add(1, Relaxed);
            return Err(Refused::StaleToken);
        }
        *row = Row { balance, token };
        Ok(balance)
    }
}

impl Account {
    fn balance(&self) -> i64 {
        self.row.lock().unwrap_or_else(PoisonError::into_inner).balance
    }
}

/// Detects concurrent use of something that only one user at a time should use. Independent of the
/// locks.
#[derive(Default)]
pub(crate) struct OverlapCounter {
    inside: AtomicU64,
    overlaps: AtomicU64,
}

impl OverlapCounter {
    pub(crate) fn enter(&self) -> Visit<'_> {
        if self.inside.fetch_add(1, SeqCst) > 0 {
            self.overlaps.fetch_add(1, SeqCst);
        }
        Visit(self)
    }

    /// The number of visits that began during another one.
    pub(crate) fn overlaps(&self) -> u64 {
        self.overlaps.load(SeqCst)
    }
}

/// A visit. It ends on drop, so also if the work is cancelled.
pub(crate) struct Visit<'a>(&'a OverlapCounter);

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, SeqCst);
    }
}
