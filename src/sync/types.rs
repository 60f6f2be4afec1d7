//! The types whose operations a scheduler of threads has to see: the standard library's and
//! tokio's, or those in `shuttle`.
//!
//! `Arc` and `Weak` are the standard library's in both cases, as `shuttle` has none of its own.

#[cfg(not(redlock_shuttle))]
mod exported {
    #[cfg(feature = "testing")]
    pub(crate) use std::sync::Condvar;
    pub(crate) use std::{
        sync::{Mutex, MutexGuard, OnceLock, atomic},
        thread, thread_local,
    };

    pub(crate) use tokio::sync::Notify;
}

#[cfg(redlock_shuttle)]
mod exported {
    #[cfg(feature = "testing")]
    pub(crate) use shuttle::sync::Condvar;
    pub(crate) use shuttle::{
        sync::{Mutex, MutexGuard, atomic},
        thread, thread_local,
    };

    pub(crate) use crate::sync::scheduled::{Notify, OnceLock};
}

pub(crate) use std::sync::PoisonError;

pub(crate) use exported::*;
