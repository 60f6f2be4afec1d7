//! Wrong clocks and late commands: commands that arrive late, servers whose clocks jump, and a
//! local clock that pauses or jumps.

mod scene;

mod claims;
mod jumps;
mod late;
mod majority;
mod once;
mod still;
mod strict;
mod takeover;
mod wall;
mod within_script;
