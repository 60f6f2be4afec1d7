//! The way between a client and a server.

use super::deliver::Event;
use crate::rng::Rng;

/// How fast a link is.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Least delay in µs.
    pub least: u64,
    /// Greatest delay in µs of what is not lost.
    pub most: u64,
    /// Percentage of the segments that are lost, and sent again.
    pub loss: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self { least: 100, most: 900, loss: 0 }
    }
}

/// Time after which a lost segment is sent again, in µs.
const RETRANSMISSION: u64 = 200_000;

impl Pace {
    /// Draws the delay of a segment in µs.
    pub(super) fn delay(self, rng: &mut Rng) -> u64 {
        let mut delay = rng.within(self.least, self.most);
        let mut timeout = RETRANSMISSION;
        while rng.chance(self.loss) && timeout < 2_000_000 {
            delay += timeout;
            timeout *= 2;
        }
        delay
    }
}

/// One direction of a link.
#[derive(Clone, Debug, Default)]
pub(super) struct Direction {
    pub(super) is_blocked: bool,
    pub(super) pace: Pace,
    /// What arrived while it was blocked.
    pub(super) parked: Vec<Event>,
}

/// Both directions.
#[derive(Clone, Debug, Default)]
pub(super) struct Link {
    /// Each new connection arrives twice.
    pub(super) is_doubled: bool,
    pub(super) up: Direction,
    pub(super) down: Direction,
}
