//! Who held a lock of late, as far as this process has seen it.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::{Duration, SystemTime},
};

use crate::text::beginning;

/// Maximum number of names.
const MAX_NAMES: usize = 128;
/// Maximum number of holders of a name.
const MAX_HOLDINGS: usize = 16;
/// Number of bytes that are kept of an owner.
const OWNER_BYTES: usize = 64;

/// The holders of names of late. The name whose holders were recorded least recently is forgotten first.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    names: HashMap<Arc<str>, NameHoldings>,
    /// Number of records so far.
    records: u64,
}

#[derive(Debug, Default)]
struct NameHoldings {
    /// The number of the latest record.
    recorded: u64,
    /// The time of what was recorded last, counted from the begin of the records.
    latest: Duration,
    /// Its holders, in the order in which they were first seen.
    holdings: VecDeque<Holding>,
}

/// A lease of one process on a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holding {
    /// The beginning of the owner's name.
    pub(crate) owner: Arc<str>,
    /// Zero without a fencing token.
    pub(crate) token: u64,
    pub(crate) is_shared: bool,
    /// Its begin, by the clock of the holder.
    pub(crate) since: SystemTime,
    /// The latest time at which it was seen to last.
    pub(crate) seen: SystemTime,
    pub(crate) end: HoldingEnd,
}

/// The end of a holding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HoldingEnd {
    /// It was not seen to end.
    Open,
    /// It ended between the time at which it was last seen and this one.
    Before(SystemTime),
    /// The lock was lost at this time.
    Lost(SystemTime),
}

/// A holder as the servers name it, or as this process knows itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeenHolder<'a> {
    pub(crate) owner: &'a str,
    pub(crate) token: u64,
    pub(crate) is_shared: bool,
    /// `None`: unknown.
    pub(crate) since: Option<SystemTime>,
}

/// A time by the wall clock, and the same counted from the begin of the records, by which observations are ordered.
pub(crate) type SeenAt = (SystemTime, Duration);

impl Holding {
    fn new(holder: &SeenHolder<'_>, at: SystemTime) -> Self {
        let owner = beginning(holder.owner, OWNER_BYTES).into();
        let since = holder.since.unwrap_or(at).min(at);
        let SeenHolder { token, is_shared, .. } = *holder;
        Self { owner, token, is_shared, since, seen: at, end: HoldingEnd::Open }
    }

    fn is_open(&self) -> bool {
        self.end == HoldingEnd::Open
    }

    /// Returns whether it is the lease of this holder. The servers keep no token of a shared lock.
    fn is_of(&self, holder: &SeenHolder<'_>) -> bool {
        let is_same_token = self.token == holder.token || self.token == 0 || holder.token == 0;
        *self.owner == *beginning(holder.owner, OWNER_BYTES)
            && self.is_shared == holder.is_shared
            && (holder.is_shared || is_same_token)
    }

    fn close(&mut self, at: SystemTime) {
        self.end = HoldingEnd::Before(at.max(self.seen));
    }
}

impl NameHoldings {
    /// Records that a holder has the lock at a time.
    fn hold(&mut self, holder: &SeenHolder<'_>, at: SystemTime) {
        if let Some(known) = self.holdings.iter_mut().find(|of| of.is_open() && of.is_of(holder)) {
            known.seen = known.seen.max(at);
            return;
        }
        if self.holdings.len() == MAX_HOLDINGS {
            self.holdings.pop_front();
        }
        self.holdings.push_back(Holding::new(holder, at));
        debug_assert!(self.holdings.len() <= MAX_HOLDINGS);
    }

    /// Records that no other holder has the lock at a time.
    fn only(&mut self, holders: &[SeenHolder<'_>], at: SystemTime) {
        for known in self.holdings.iter_mut().filter(|known| known.is_open()) {
            if !holders.iter().any(|holder| known.is_of(holder)) {
                // The next one began after its end.
                let next = holders.iter().filter_map(|next| next.since).min();
                known.close(next.unwrap_or(at).min(at));
            }
        }
    }
}

impl Holdings {
    /// Records that a request of this process was granted a lock.
    pub(crate) fn granted(&mut self, name: &str, holder: &SeenHolder<'_>, (at, order): SeenAt) {
        let of = self.tracked(name);
        of.latest = of.latest.max(order);
        if !holder.is_shared {
            of.only(&[*holder], at);
        }
        of.hold(holder, at);
    }

    /// Records that this process lost its lock.
    pub(crate) fn lost(&mut self, name: &str, owner: &str, at: SystemTime) {
        let Some(of) = self.names.get_mut(name) else { return };
        let owner = beginning(owner, OWNER_BYTES);
        let held = of.holdings.iter_mut().filter(|held| held.is_open() && &*held.owner == owner);
        held.for_each(|held| held.end = HoldingEnd::Lost(at));
    }

    /// Records the holders that the servers had at a time; none if the lock was free. Does nothing for a snapshot that
    /// is not newer than what is recorded, and for a free name of which nothing is recorded.
    pub(crate) fn seen(&mut self, name: &str, holders: &[SeenHolder<'_>], (at, order): SeenAt) {
        match self.names.get(name) {
            Some(of) if of.latest >= order => return,
            None if holders.is_empty() => return,
            _ => {}
        }
        let of = self.tracked(name);
        of.latest = order;
        of.only(holders, at);
        for holder in holders {
            of.hold(holder, at);
        }
    }

    fn tracked(&mut self, name: &str) -> &mut NameHoldings {
        if !self.names.contains_key(name) && self.names.len() == MAX_NAMES {
            let oldest = self.names.iter().min_by_key(|(_, of)| of.recorded);
            if let Some(oldest) = oldest.map(|(name, _)| Arc::clone(name)) {
                self.names.remove(&oldest);
            }
        }
        self.records += 1;
        let of = self.names.entry(name.into()).or_default();
        of.recorded = self.records;
        of
    }

    /// Returns the holders of a name, the latest first.
    pub(crate) fn of(&self, name: &str) -> Vec<Holding> {
        let holdings = self.names.get(name).map(|of| of.holdings.iter().rev().cloned().collect());
        holdings.unwrap_or_default()
    }

    /// Returns whether holders of a name are recorded.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn at(second: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_000 + second)
    }

    fn moment(second: u64) -> SeenAt {
        (at(second), Duration::from_secs(1 + second))
    }

    fn holder(owner: &str, token: u64, since: Option<u64>) -> SeenHolder<'_> {
        SeenHolder { owner, token, is_shared: false, since: since.map(at) }
    }

    fn shared(owner: &str) -> SeenHolder<'_> {
        SeenHolder { is_shared: true, ..holder(owner, 0, None) }
    }

    fn shown(holdings: &Holdings) -> Vec<(String, HoldingEnd)> {
        holdings.of("a").into_iter().map(|of| (of.owner.to_string(), of.end)).collect()
    }

    #[test]
    fn next_holder_ends_the_former_one() {
        let mut holdings = Holdings::default();
        holdings.granted("a", &holder("ours", 1, None), moment(0));
        holdings.seen("a", &[holder("ours", 1, Some(0))], moment(5));
        holdings.seen("a", &[holder("other", 2, Some(7))], moment(9));
        holdings.seen("a", &[], moment(12));

        let ended = [
            ("other".into(), HoldingEnd::Before(at(12))),
            ("ours".into(), HoldingEnd::Before(at(7))),
        ];
        assert_eq!(shown(&holdings), ended);
        let first = &holdings.of("a")[1];
        assert_eq!((first.since, first.seen), (at(0), at(5)));
    }

    #[test]
    fn hand_off_stays_one_lease() {
        let mut holdings = Holdings::default();
        for second in 0..3 {
            holdings.granted("a", &holder("ours", 7, None), moment(second));
        }
        assert_eq!(shown(&holdings), [("ours".into(), HoldingEnd::Open)]);
        assert_eq!(holdings.of("a")[0].seen, at(2));
    }

    #[test]
    fn loss_ends_the_lease_of_this_process() {
        let mut holdings = Holdings::default();
        holdings.granted("a", &holder("ours", 1, None), moment(0));
        holdings.lost("a", "ours", at(3));
        holdings.seen("a", &[holder("other", 2, Some(3))], moment(4));
        let ended = [("other".into(), HoldingEnd::Open), ("ours".into(), HoldingEnd::Lost(at(3)))];
        assert_eq!(shown(&holdings), ended);
    }

    #[test]
    fn readers_hold_side_by_side() {
        let mut holdings = Holdings::default();
        holdings.seen("a", &[shared("ann"), shared("bob")], moment(0));
        holdings.seen("a", &[shared("bob"), shared("eve")], moment(2));
        let ended = [
            ("eve".into(), HoldingEnd::Open),
            ("bob".into(), HoldingEnd::Open),
            ("ann".into(), HoldingEnd::Before(at(2))),
        ];
        assert_eq!(shown(&holdings), ended);
    }

    #[test]
    fn older_snapshots_change_nothing() {
        let mut holdings = Holdings::default();
        holdings.seen("a", &[holder("first", 1, Some(0))], moment(0));
        holdings.seen("a", &[holder("second", 2, Some(4))], moment(5));
        let before = holdings.of("a");

        holdings.seen("a", &[holder("first", 1, Some(0))], moment(0));
        holdings.seen("a", &[holder("first", 1, Some(0))], moment(4));

        assert_eq!(holdings.of("a"), before);
    }

    #[test]
    fn free_names_are_not_recorded() {
        let mut holdings = Holdings::default();
        holdings.seen("a", &[], moment(0));
        assert!(!holdings.has("a"));
    }

    #[test]
    fn latest_names_and_holders_are_kept() {
        let mut holdings = Holdings::default();
        for token in 1..=40 {
            holdings.granted("a", &holder("ours", token, None), moment(token));
        }
        let kept = holdings.of("a");
        assert_eq!((kept.len(), kept[0].token, kept[15].token), (MAX_HOLDINGS, 40, 25));

        for number in 0..MAX_NAMES {
            holdings.granted(&number.to_string(), &holder("ours", 1, None), moment(50));
        }
        assert!(!holdings.has("a") && holdings.has("0"));
    }
}
