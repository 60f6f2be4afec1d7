//! The link between a client and a server.

use super::deliver::Event;
use crate::rng::Rng;

/// The speed of a link.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Minimum delay in µs.
    pub least: u64,
    /// Maximum delay in µs of segments that are not lost.
    pub most: u64,
    /// Percentage of the segments that are lost and resent.
    pub loss: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self { least: 100, most: 900, loss: 0 }
    }
}

/// Time after which a lost segment is resent, in µs.
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
    /// Messages that arrived while it was blocked.
    pub(super) parked: Vec<Event>,
}

/// Both directions.
#[derive(Clone, Debug, Default)]
pub(super) struct Link {
    /// Whether each new connection arrives twice.
    pub(super) is_doubled: bool,
    pub(super) up: Direction,
    pub(super) down: Direction,
}
