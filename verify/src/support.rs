//! The integration tests' modules for real servers that are used here.
#![allow(
    dead_code,
    missing_docs,
    clippy::missing_panics_doc,
    clippy::new_without_default,
    reason = "written for test binaries, of which each uses a part"
)]

#[path = "../../tests/support/hand_clock.rs"]
pub(crate) mod hand_clock;
#[path = "../../tests/support/port.rs"]
pub mod port;
#[path = "../../tests/support/process.rs"]
pub mod process;
#[path = "../../tests/support/program.rs"]
pub mod program;
#[path = "../../tests/support/resp.rs"]
pub mod resp;
#[path = "../../tests/support/server_clock.rs"]
pub mod server_clock;
#[path = "../../tests/support/temp_dir.rs"]
pub mod temp_dir;
#[path = "../../tests/support/wait.rs"]
pub mod wait;
