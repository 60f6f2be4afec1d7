//! Wrong clocks and late commands: commands that arrive late, servers whose clocks jump, and a
//! local clock that pauses or jumps.

mod jumps;
mod late;
mod steps;
mod wall;
