//! What leadership promises, on a clock that is moved by hand.

mod campaigns;
mod end;
mod hangs;
mod inputs;
mod losses;
mod resigning;
mod scene;
mod takeover;
