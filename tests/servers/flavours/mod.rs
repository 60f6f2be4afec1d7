//! Servers of other kinds: each is fit, fit with limitations, or unfit with a reason.

mod compose;
mod identities;
mod unfit;
