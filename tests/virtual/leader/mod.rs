//! Tests of leader election, on a clock that is moved by hand.

mod again;
mod campaigns;
mod end;
mod fixture;
mod handover;
mod hangs;
mod inputs;
mod losses;
mod resigning;
mod stopping;
mod takeover;
