//! Events of `tracing`, which must not be sent while a mutex of the crate is held, as a subscriber
//! may call the crate again.

/// Sends an event. With debug assertions, panics if a mutex of the crate is held.
macro_rules! event {
    ($level:ident, $($event:tt)+) => {{
        $crate::sync::assert_unlocked();
        ::tracing::$level!($($event)+);
    }};
}

macro_rules! error_event {
    ($($event:tt)+) => { $crate::log::event!(error, $($event)+) };
}

macro_rules! warn_event {
    ($($event:tt)+) => { $crate::log::event!(warn, $($event)+) };
}

macro_rules! info_event {
    ($($event:tt)+) => { $crate::log::event!(info, $($event)+) };
}

macro_rules! debug_event {
    ($($event:tt)+) => { $crate::log::event!(debug, $($event)+) };
}

#[cfg(feature = "scheduler")]
macro_rules! trace_event {
    ($($event:tt)+) => { $crate::log::event!(trace, $($event)+) };
}

#[cfg(feature = "scheduler")]
pub(crate) use trace_event as trace;
pub(crate) use {
    debug_event as debug, error_event as error, event, info_event as info, warn_event as warn,
};
