//! Keys that need a request's whole body.
//!
//! | part | where |
//! |---|---|
//! | what such a key is | [`BodyKey`] |
//! | a value inside of JSON | [`json_pointer`] |
//! | the way there, past everything else | `walk` |

mod body_key;
mod json_pointer;
mod walk;

pub use body_key::BodyKey;
pub use json_pointer::{JsonPointer, json_pointer};
