//! Which nodes may vote, decided without a socket, a timer, a clock or a random number.
//!
//! | rule | where |
//! |---|---|
//! | nodes that may have forgotten locks wait out a probation | [`enrol`] |
//! | status of a node and its activation | [`node_status`] |
//! | nodes that belong, or belonged, to another set | [`other_sets`] |
//! | how far servers' clocks are from this process's | [`offsets`] |
//! | servers whose clocks jumped, and a local clock that was paused | [`clock_jump_detector`] |
//!
//! # Servers that may have forgotten (R6)
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
//! * *Enrol.* A node without a tag or fences, or with our layout and an earlier run, begins a
//!   probation under a new nonce; but not one that was last seen in another set.
//! * *Wait.* Each client waits `max_ttl` and the drift, by its own clock, from when it first saw this
//!   enrolment, and from when it saw that enough others have its view (R14).
//! * *Learn.* Only then the fences are read from N−q+1 active others whose tags are unchanged, and
//!   merged by maximum: every quorum that completed a lease shares a node with them, and an earlier
//!   reading would miss later leases. Claims are merged in parts. If a node reports a longer
//!   `max_ttl`, the client waits for that as well.
//! * *Bootstrap.* If a quorum is in probation, its nodes activate together, with what all nodes in
//!   sight know, and fences at least 60 s ahead of their clocks: no token was further ahead (R9).
//!   If fewer than N−q+1 others start with a node, the missing ones have one probation's time to
//!   return. A minority that forgot waits for the missing nodes, as others may still reach its
//!   former servers.
//! * *`max_ttl`* only grows by itself, once a quorum votes: no key has a longer TTL, and every quorum
//!   that keeps a lock has a node that reports it to a probation. *Lowering* keeps the former value
//!   beside the new one (`longer`); probations wait for it until all earlier keys have expired by
//!   the clock of the client that lowers. Renewals refuse a longer TTL.
//! * *Records* of work that is done are copied after the activation; until then the node does not
//!   say that there is none.
//!
//! Limits: a blank node belongs to the first client that sees it, and one set back to a snapshot
//! from before an adoption to the old set. A clock that is ahead at a bootstrap puts the fences
//! ahead, and no token is granted until real time is within 60 s of them. A quorum that forgets
//! within one `max_ttl` is a new set: what was recorded only there is lost.
//!
//! # One node, one server; one layout, one quorum (R7)
//!
//! Nodes with the same run id are one server, and none of them votes. The *layout* is a hash of the
//! sorted names, the prefix, the restart guard and the form of what is stored. A client with
//! another layout gets no vote and no renewal, and its error shows the right one.
//!
//! Nodes *move* to another layout (state `m`: they only learn). When N−q+1 have, the old set has no
//! quorum left, and they begin a probation. The fences and the larger `max_ttl` are kept; the owners
//! of names begin anew. No set bootstraps while one of its nodes may vote for another, nor within
//! one `max_ttl` after that.
//!
//! * *Adopt* is a command; all nodes of the new set begin a probation. It counts nodes that voted
//!   under one view when they left, as the former server of a name may vote for others; or one
//!   under each of the N names. Records of the former form do not tell their view: all have to
//!   move.
//! * *Takeover* is for servers that a first start with a wrong list has bound. Clients leave a mark
//!   on the nodes of their set (`seen`); a node whose mark has not changed for 1.25 `max_ttl`, the
//!   drift and 10 s is unused. If a set has no quorum without its unused nodes, they move, if their
//!   marks are unchanged.
//!
//! # Clocks that jump (R10)
//!
//! Every answer to a vote contains the server's TIME, and gives an interval for the offset of that
//! clock: between sending and receiving. All intervals of the last `max_ttl` have to intersect,
//! within the drift of the time between them: a lock sets aside the drift of its own TTL, and had a
//! reading when it was granted. A slow answer makes a wide interval, not a jump. If the intervals
//! do not intersect, the node's vote is void at once, the node grants nothing for `max_ttl`, and what
//! it granted to held locks before no longer counts: a lock that is left with fewer than q sound
//! votes is lost. Renewing a key that still exists counts, since it depends only on the time from
//! now on: only later jumps void it, once they add up to more than the lock sets aside.
//!
//! If the client's own clock paused (a paused virtual machine), every server seems to have jumped
//! forward by that time. So a quorum whose jumps are alike, and can have happened at one moment,
//! may show a local pause. A server that was read before and after that moment, and cannot have
//! advanced by so much, disproves it. The verdict waits until every connected node has been read
//! again, at most for 5 s; meanwhile nodes that jumped grant nothing. A slow answer disproves
//! nothing, and a disconnected node cannot be read. After a local pause, all deadlines move up by
//! the maximum that it can have been, the nodes vote again, and no probation gets shorter.
//! Otherwise the jumps are the servers' own.
//!
//! Limits: a jump that is taken back between two readings, or precedes a client's first reading, is
//! missed. If all connected servers jump alike, every client takes that for its own pause: its
//! locks end, but for up to a second a holder that has not read a clock yet still believes in a
//! lock that another client may be granted.
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
