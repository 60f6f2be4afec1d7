//! Responses on a server of their own.
//!
//! | part | where |
//! |---|---|
//! | the store | [`RedisStore`] |
//! | its settings | [`RedisStoreBuilder`] |
//! | the futures | [`RedisPut`], [`RedisGet`] |
//! | the task that asks the server | `worker` |
//! | the form of a stored response | `stored` |

mod asked;
mod builder;
mod store;
mod stored;
mod worker;

pub use asked::{RedisGet, RedisPut};
pub use builder::RedisStoreBuilder;
pub use store::RedisStore;
