//! Work that runs once per key, over real servers.

mod crash;
mod log;
#[cfg(feature = "http")]
mod owed;
mod records;
#[cfg(feature = "http")]
mod redis_store;
mod restarts;
#[cfg(feature = "http")]
mod store_faults;
#[cfg(feature = "http")]
mod store_streams;

#[cfg(feature = "http")]
pub(crate) use redis_store::cause;
