//! Responses on a server of their own.
//!
//! | part | where |
//! |---|---|
//! | the store | [`RedisStore`] |
//! | its settings | [`RedisStoreBuilder`] |
//! | the futures | [`RedisPut`], [`RedisGet`] |
//! | the task that asks the server | `worker` |

mod asked;
mod builder;
mod store;
mod worker;

pub use asked::{RedisGet, RedisPut};
pub use builder::RedisStoreBuilder;
pub use store::RedisStore;
