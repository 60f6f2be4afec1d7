//! Where the responses are kept that are sent again.
//!
//! | part | where |
//! |---|---|
//! | what a store must do | [`ResponseStore`] |
//! | why it could not | [`StoreError`] |
//! | one in this process's memory | [`MemoryStore`], `table` |
//! | one on a server of its own | [`RedisStore`], `redis` |

mod error;
mod memory;
mod redis;
mod response_store;
mod table;
#[cfg(test)]
mod tests;

pub use error::StoreError;
pub use memory::{DEFAULT_STORE_CAPACITY, MemoryStore};
pub use redis::{RedisGet, RedisPut, RedisStore, RedisStoreBuilder};
pub use response_store::{ResponseStore, StoredBy};
