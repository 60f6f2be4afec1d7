//! Which nodes may vote, as pure state machines: no socket, timer, clock or random number.
//!
//! | rule | where |
//! |---|---|
//! | R6: nodes that may have forgotten locks wait out a probation | [`enrol`] |
//! | status of a node and its activation | [`node_status`] |
//! | R7: nodes that belong, or belonged, to another set | [`other_sets`] |
//! | R10: clocks that jump, by their offsets from the local clock | [`offsets`] |
//! | R10: jumps of servers' clocks, or a pause of the local clock | [`clock_jump_detector`] |
//!
//! A server votes under one view, and a client counts votes of one view only. What a node stores of
//! its membership is its *record*: a *tag*, `max_ttl`, the *owners* of the other names (R14), and
//! marks (`docs/wire-format.md`).
//!
//! ```text
//!             no tag, no fences, another run                    N−q+1 others vote under its owners
//!   unknown ──────────────────────────────▶ probation ── max_ttl ─────────────────────────────────▶ active
//!      ▲                                      ▲     │                                                 │
//!      │ FLUSHALL, blank restart              │     └── q forgot together, max_ttl: bootstrap ───────▶│
//!      └──────────────────────────────────────┴──────── restart, promotion, displaced, adopted ◀──────┘
//! ```
//!
//! # Invariants
//!
//! * A node that may have forgotten votes only after every lock that it may have forgotten has
//!   expired.
//! * What a node learns at its activation includes the fence of every lease that was completed
//!   before.
//! * No two layouts of one server may grant at the same time.
//! * A probation never gets shorter.

pub mod clock_jump_detector;
pub mod enrol;
pub mod node_status;
pub mod offsets;
pub mod other_sets;
