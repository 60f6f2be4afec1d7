//! The Redlock algorithm as state machines, without I/O.
//!
#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

pub mod hash;
pub mod membership;
pub mod protocol;
pub mod quorum;
pub mod resource;
pub mod schedule;
pub mod server_text;
pub mod stripe;
#[doc(hidden)]
pub mod switches;
pub mod tick_policy;
pub mod timestamp;
pub mod token;
pub mod unfit;
pub mod vote;

pub use resource::Resource;
pub use schedule::Schedule;
pub use token::FencingToken;
