//! Stores of the responses that are replayed: the trait, and the crate's own stores.

mod memory;
mod redis;
mod response_store;
#[cfg(test)]
mod tests;

#[cfg(any(test, fuzzing))]
pub(crate) use self::redis::fuzzing::stored as fuzz_stored;
pub use memory::{DEFAULT_STORE_BYTES, DEFAULT_STORE_CAPACITY, MemoryStore};
pub use redis::{RedisStore, RedisStoreBuilder};
pub use response_store::{ResponseStore, StoreError, StoreFuture, StoredBy};
