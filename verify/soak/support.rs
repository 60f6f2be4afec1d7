//! What the integration tests use for real servers, as far as it is wanted here.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::duplicate_mod,
    reason = "the tests' own modules, of which only a part is used"
)]

#[path = "../../tests/support/hand_clock.rs"]
pub mod hand_clock;
#[path = "../../tests/support/port.rs"]
pub mod port;
#[path = "../../tests/support/process.rs"]
pub mod process;
#[path = "../../tests/support/resp.rs"]
pub mod resp;
#[path = "../../tests/support/server_clock.rs"]
pub mod server_clock;
#[path = "../../tests/support/temp_dir.rs"]
pub mod temp_dir;
#[path = "../../tests/support/wait.rs"]
pub mod wait;
