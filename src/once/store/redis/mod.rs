//! A store on a Redis server of its own.

mod builder;
mod client;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod store;
mod worker;

pub use builder::RedisStoreBuilder;
pub use store::RedisStore;
