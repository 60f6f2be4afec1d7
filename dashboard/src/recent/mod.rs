//! What happened of late in this process, in bounded memory.
//!
//! | record | bound | at most |
//! |---|---|---|
//! | [`Rates`](rates::Rates) | 60 counts of 15 s each, and 60 counts of a minute of losses | 60 kB |
//! | [`Contention`](contention::Contention) | 256 names of up to 1,024 bytes, 15 min each | 400 kB |
//! | [`Holdings`](holdings::Holdings) | 128 names with 16 holders each, of whose owners 64 bytes are kept | 500 kB |
//!
//! Together they take at most [`LIMIT`] bytes, whatever happens.

mod contention;
mod holdings;
mod rates;
mod recorder;

pub(crate) use contention::{Contention, NameWaits};
pub(crate) use holdings::{Holding, HoldingEnd, Holdings, SeenAt, SeenHolder};
pub(crate) use rates::{RATE_SLOT, Rates, RatesView};
pub(crate) use recorder::Recent;

/// Maximum memory of all records of a dashboard, in bytes.
#[cfg(test)]
const LIMIT: u64 = 1_000_000;

#[cfg(test)]
mod tests;
