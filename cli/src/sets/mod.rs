//! Changes of the set: servers that move to another configuration, and a lower `max_ttl`.

mod adopt;
mod lower;

pub(crate) use self::{
    adopt::{AdoptArgs, adopt},
    lower::lower,
};
