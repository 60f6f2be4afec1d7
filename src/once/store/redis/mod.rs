//! Responses on a server of their own.
//!
//! | part | where |
//! |---|---|
//! | the store | [`RedisStore`] |
//! | its settings | [`RedisStoreBuilder`] |
//! | the futures | [`RedisPut`], [`RedisGet`] |
//! | the task that asks the server | `worker` |
//! | the form of a stored response | `stored` |

mod builder;
mod client;
mod store;
mod stored;
mod worker;

pub use builder::RedisStoreBuilder;
pub use client::{RedisGet, RedisPut};
pub use store::RedisStore;
