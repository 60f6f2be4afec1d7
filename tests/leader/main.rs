//! Tests of leader election, on a clock that is moved by hand.

mod again;
mod campaigns;
mod end;
mod handover;
mod hangs;
mod inputs;
#[path = "../scheduler/log_lines.rs"]
#[allow(dead_code, reason = "it is shared")]
mod log_lines;
mod losses;
#[path = "../support/mock_node.rs"]
mod mock_node;
mod resigning;
mod scene;
mod stopping;
mod takeover;
