//! Wrong clocks and late commands: commands that arrive late, servers whose clocks jump, and a
//! local clock that pauses or jumps.

mod scene;

mod jumps;
mod late;
mod majority;
mod steps;
mod still;
mod wall;
