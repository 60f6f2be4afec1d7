//! The slots of a name, in JSON and in errors.

use serde_json::{Value, json};
use tower_redlock::Resource;

use crate::exit::Failure;

/// Adds the number of the slot, and the name that it belongs to, to the object of a lock: null for others.
pub(super) fn with_slot(mut json: Value, name: &str) -> Value {
    let (number, of) = Resource::slot_of(name).unzip();
    (json["slot"], json["slot_of"]) = (json!(number), json!(of));
    json
}

/// Refuses the name that stands for all slots: a lock has the name of one slot.
pub(super) fn is_one_lock(name: &str) -> Result<(), Failure> {
    match Resource::any_slot_of(name) {
        None => Ok(()),
        Some(of) => Err(Failure::usage(format!(
            "each slot of \"{of}\" is a lock of its own, slot:<number>:{of}: `redlock ls 'slot:*:{of}'` \
             lists those that are held"
        ))),
    }
}
