//! The accounts. They stand for a database: they know nothing of locks, but check tokens.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tower_redlock::FencingToken;

use crate::overlap::Room;

/// Accounts are numbered from 1 to this.
pub(crate) const ACCOUNTS: usize = 5;
pub(crate) const OPENING_BALANCE: i64 = 1_000_000;
/// What passes between reading a balance and writing it: here two withdrawals at once would both
/// start from the same balance, and one would be forgotten.
pub(crate) const THINKING: Duration = Duration::from_millis(5);

#[derive(Default)]
pub(crate) struct Ledger {
    accounts: [Account; ACCOUNTS],
    stale: AtomicU64,
}

#[derive(Default)]
struct Account {
    room: Room,
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
    /// A holder with a newer token has written already: this one was overtaken.
    StaleToken,
}

impl Ledger {
    /// Takes 1 from an account: reads, thinks, and writes. Returns the new balance.
    pub(crate) async fn withdraw(&self, id: usize, token: FencingToken) -> Result<i64, Refused> {
        let account = self.account(id)?;
        let _visit = account.room.enter();
        let balance = account.balance();
        tokio::time::sleep(THINKING).await;
        self.write(account, balance - 1, token)
    }

    pub(crate) fn balance(&self, id: usize) -> Result<i64, Refused> {
        self.account(id).map(Account::balance)
    }

    /// How often two withdrawals were at work on one account.
    pub(crate) fn overlaps(&self) -> u64 {
        self.accounts.iter().map(|account| account.room.overlaps()).sum()
    }

    /// How many writes came with a token that was not above the last one.
    pub(crate) fn stale_writes(&self) -> u64 {
        self.stale.load(Relaxed)
    }

    fn account(&self, id: usize) -> Result<&Account, Refused> {
        id.checked_sub(1).and_then(|i| self.accounts.get(i)).ok_or(Refused::NoSuchAccount)
    }

    /// `UPDATE … WHERE token < $token`: each lock brings a greater token than the one before.
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
