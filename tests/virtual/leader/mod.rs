//! Tests of leader election, on a clock that is moved by hand.

mod again;
mod campaigns;
mod end;
mod handover;
mod hangs;
mod inputs;
mod losses;
mod resigning;
mod scene;
mod stopping;
mod takeover;
