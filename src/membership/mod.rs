//! Which nodes may vote, decided without a socket, a timer, a clock or a random number.
//!
//! | rule | where |
//! |---|---|
//! | nodes that may have forgotten locks wait out a probation | [`enrol`] |
//! | status of a node and its activation | [`node_status`] |
//! | nodes that belong, or belonged, to another set | [`other_sets`] |
//! | how far servers' clocks are from this process's | [`offsets`] |
//! | servers whose clocks jumped, and a local clock that was paused | [`clock_jump_detector`] |

pub(crate) mod clock_jump_detector;
pub(crate) mod enrol;
pub(crate) mod node_status;
pub(crate) mod offsets;
pub(crate) mod other_sets;
