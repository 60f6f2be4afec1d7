//! The guards that the locks are built with.

use tower_redlock::{RedlockBuilder, node::redis::RestartGuard};

use crate::trial::Guards;

pub(crate) fn guard(builder: RedlockBuilder, guards: Guards) -> RedlockBuilder {
    let restart = if guards.restart { RestartGuard::Probation } else { RestartGuard::Off };
    let builder = builder.restart_guard(restart);
    match guards.clock {
        Some(within) => builder.clock_guard(within),
        None => builder,
    }
}
