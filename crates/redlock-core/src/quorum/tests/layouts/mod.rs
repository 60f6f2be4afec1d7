//! Servers that are moved from one layout to another: by an operator's command (`adopt`), or by
//! clients of the next list (takeover).
//!
//! Each layout is a world of its own with clients of its own; the servers are shared. A server is
//! blank, or belongs to one layout; to clients of the others it is *elsewhere*.
//!
//! | what | where |
//! |---|---|
//! | the state, and what the layouts have in common | `state` |
//! | how servers are moved | `moving` |
//! | the steps, and the violations | `step` |
//! | random walks, and searches | `walk` |
//! | the layouts that are searched | `plans` |
//! | tests | `holds`, `controls` |

mod controls;
mod holds;
mod moving;
mod plans;
mod state;
mod step;
mod walk;
