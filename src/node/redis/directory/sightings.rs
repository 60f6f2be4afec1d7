//! Which of the answers about a server's place counts.

use super::Location;
use crate::{error::Reason, node::redis::Address};

/// Maximum number of servers of a Cluster that are asked beside those of the URL.
const MAX_OTHERS: usize = 8;
/// Maximum number of addresses of one host name that are asked.
const MAX_ADDRESSES: usize = 8;

/// What one server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sighted {
    /// Of several answers, the one with the greatest epoch is the latest.
    pub(super) epoch: u64,
    pub(super) at: Address,
    /// Further servers that can be asked.
    pub(super) others: Vec<Address>,
}

/// What each server of a directory said last.
///
/// Of them, the word with the greatest epoch counts: a failover that one server knows of is not undone by
/// those that learn of it later. A server's word ends with its next one, or with its failure to answer; so
/// servers that begin to count anew are believed as soon as none repeats the former epoch.
#[derive(Debug)]
pub(super) struct Sightings {
    servers: Vec<UrlServer>,
    said: Vec<(Address, Result<Sighted, Reason>)>,
    latest: Option<Location>,
}

/// A server as in the URL, and the addresses that its name had last: empty until it is looked up.
#[derive(Debug)]
struct UrlServer {
    name: Address,
    addresses: Vec<Address>,
}

/// What is known at present.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Whereabouts {
    /// Where the server is, or was when that was last said.
    pub(super) location: Option<Location>,
    /// Why nobody says where it is, in the words of all servers.
    pub(super) silence: Option<Silence>,
}

/// The servers that failed to answer, by name and address, and why.
pub(super) type Silence = Vec<(String, Reason)>;

impl Sightings {
    pub(super) fn new(servers: &[Address]) -> Self {
        let unknown = |name: &Address| UrlServer { name: name.clone(), addresses: Vec::new() };
        Self { servers: servers.iter().map(unknown).collect(), said: Vec::new(), latest: None }
    }

    /// Takes the addresses of a name of the URL. Without one, the former ones stay, or the name is asked,
    /// which fails with the reason.
    pub(super) fn looked_up(&mut self, name: &Address, mut found: Vec<Address>) {
        let Some(server) = self.servers.iter_mut().find(|server| server.name == *name) else {
            return;
        };
        found.truncate(MAX_ADDRESSES);
        if !found.is_empty() {
            server.addresses = found;
        } else if server.addresses.is_empty() {
            server.addresses.push(name.clone());
        }
        self.forget_others();
    }

    /// Returns the name of the URL that has this address.
    pub(super) fn name_of(&self, address: &Address) -> Option<&Address> {
        let server = self.servers.iter().find(|server| server.addresses.contains(address))?;
        Some(&server.name)
    }

    /// Takes what a server says now.
    pub(super) fn hear(&mut self, from: Address, word: Result<Sighted, Reason>) {
        match self.said.iter_mut().find(|(server, _)| *server == from) {
            Some((_, said)) => *said = word,
            None => self.said.push((from, word)),
        }
        self.forget_others();
    }

    /// Forgets what servers said that are not asked any more.
    fn forget_others(&mut self) {
        let targets = self.targets();
        self.said.retain(|(server, _)| targets.contains(server));
    }

    /// Returns where the server is by what was said so far.
    pub(super) fn whereabouts(&mut self) -> Whereabouts {
        let word = self.counting();
        let said = word.map(|Sighted { at, epoch, .. }| Location {
            address: at.clone(),
            epoch: *epoch,
            is_fresh: true,
        });
        // Where it was, while nobody says more.
        let latest = || self.latest.clone().map(|it| Location { is_fresh: false, ..it });
        let is_said = said.is_some();
        self.latest = said.or_else(latest);
        let silence = if is_said { None } else { self.failures() };
        Whereabouts { location: self.latest.clone(), silence }
    }

    /// Returns the servers to be asked: those of the URL and those of the shard, which may outlive them.
    pub(super) fn targets(&self) -> Vec<Address> {
        let mut targets: Vec<Address> = Vec::new();
        for address in self.servers.iter().flat_map(|server| &server.addresses) {
            if !targets.contains(address) {
                targets.push(address.clone());
            }
        }
        if let Some(word) = self.counting()
            && !word.others.is_empty()
        {
            let mut others: Vec<_> = word.others.iter().collect();
            others.sort_unstable_by_key(ToString::to_string);
            let others = std::iter::once(&word.at).chain(others);
            let others = others.filter(|other| !targets.contains(other)).take(MAX_OTHERS);
            let others: Vec<_> = others.cloned().collect();
            targets.extend(others);
        }
        targets
    }

    /// The word with the greatest epoch; of several, the one that is believed already.
    fn counting(&self) -> Option<&Sighted> {
        let words = || self.said.iter().filter_map(|(_, word)| word.as_ref().ok());
        let epoch = words().map(|word| word.epoch).max()?;
        let latest = || words().filter(|word| word.epoch == epoch);
        let is_known =
            |word: &&Sighted| self.latest.as_ref().is_some_and(|it| it.address == word.at);
        latest().find(is_known).or_else(|| latest().next())
    }

    /// Why no server answers, once each has failed.
    fn failures(&self) -> Option<Silence> {
        let mut failures = Silence::new();
        for UrlServer { name, addresses } in &self.servers {
            if addresses.is_empty() {
                return None;
            }
            for address in addresses {
                let (_, said) = self.said.iter().find(|(known, _)| known == address)?;
                let reason = said.as_ref().err()?.clone();
                let shown =
                    if name == address { name.to_string() } else { format!("{name} ({address})") };
                failures.push((shown, reason));
            }
        }
        Some(failures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> Address {
        Address::Tcp { host: "10.0.0.1".into(), port }
    }

    #[expect(clippy::unnecessary_wraps, reason = "as servers say it")]
    fn word(epoch: u64, port: u16) -> Result<Sighted, Reason> {
        Ok(Sighted { epoch, at: address(port), others: Vec::new() })
    }

    /// Three servers at the ports 1 to 3, which say these things in this order.
    fn after(words: &[(u16, Result<Sighted, Reason>)]) -> Sightings {
        let servers = [1, 2, 3].map(address);
        let mut sightings = Sightings::new(&servers);
        for server in &servers {
            sightings.looked_up(server, vec![server.clone()]);
        }
        for (from, word) in words {
            sightings.hear(address(*from), word.clone());
            sightings.whereabouts();
        }
        sightings
    }

    fn place(words: &[(u16, Result<Sighted, Reason>)]) -> Option<(Address, u64, bool)> {
        let Whereabouts { location, .. } = after(words).whereabouts();
        location.map(|it| (it.address, it.epoch, it.is_fresh))
    }

    #[test]
    fn greatest_epoch_counts() {
        let (old, new) = (word(3, 10), word(4, 11));
        for words in [
            vec![(1, old.clone()), (2, new.clone())],
            vec![(2, new.clone()), (1, old.clone()), (3, old.clone())],
            vec![(1, old.clone()), (2, new.clone()), (1, new.clone()), (3, old.clone())],
        ] {
            assert_eq!(place(&words), Some((address(11), 4, true)), "{words:?}");
        }
    }

    #[test]
    fn silence_keeps_place_and_epoch() {
        let failed = || Err(Reason::TimedOut);
        let all = [(1, word(4, 11)), (1, failed()), (2, failed()), (3, failed())];
        assert_eq!(place(&all), Some((address(11), 4, false)));
        let silence = after(&all).whereabouts().silence.unwrap();
        assert_eq!(silence.len(), 3);
        // The first to answer again may be one that is behind, and is all there is.
        let behind = [&all[..], &[(2, word(3, 10))]].concat();
        assert_eq!(place(&behind), Some((address(10), 3, true)));
        let known = [&behind[..], &[(3, word(4, 11))]].concat();
        assert_eq!(place(&known), Some((address(11), 4, true)));
    }

    #[test]
    fn some_silent_servers_hide_nothing() {
        let failed = || Err(Reason::TimedOut);
        assert_eq!(place(&[(1, failed()), (2, failed())]), None);
        assert_eq!(after(&[(1, failed()), (2, failed())]).whereabouts().silence, None);
        let one = [(1, failed()), (2, failed()), (3, word(1, 10))];
        assert_eq!(place(&one), Some((address(10), 1, true)));
        assert_eq!(after(&one).whereabouts().silence, None);
    }

    /// Two names of one server, as Sentinels with different settings give them.
    #[test]
    fn equal_epochs_change_nothing() {
        let words = [(1, word(4, 10)), (2, word(4, 11)), (3, word(4, 11)), (1, word(4, 10))];
        for count in 1..=words.len() {
            assert_eq!(place(&words[..count]), Some((address(10), 4, true)), "{count}");
        }
        let gone = [&words[..], &[(1, Err(Reason::TimedOut))]].concat();
        assert_eq!(place(&gone), Some((address(11), 4, true)));
    }

    /// The service was set up anew, one Sentinel after another.
    #[test]
    fn all_may_count_anew() {
        let before = [(1, word(7, 10)), (2, word(7, 10)), (3, word(7, 10))];
        let two = [&before[..], &[(1, word(0, 11)), (2, word(0, 11))]].concat();
        assert_eq!(place(&two), Some((address(10), 7, true)));
        let all = [&two[..], &[(3, word(0, 11))]].concat();
        assert_eq!(place(&all), Some((address(11), 0, true)));
    }

    #[test]
    fn addresses_of_names_are_asked() {
        let name = |host: &str| Address::Tcp { host: host.into(), port: 1 };
        let (a, b) = (name("a"), name("b"));
        let mut sightings = Sightings::new(&[a.clone(), b.clone()]);
        assert_eq!(sightings.targets(), []);
        sightings.looked_up(&a, vec![address(1), address(2)]);
        sightings.hear(address(1), Err(Reason::TimedOut));
        sightings.hear(address(2), Err(Reason::Disconnected));
        assert_eq!(sightings.whereabouts().silence, None, "the other name is looked up");
        sightings.looked_up(&b, vec![address(2)]);
        assert_eq!(sightings.targets(), [address(1), address(2)]);
        assert_eq!(sightings.name_of(&address(2)), Some(&a));
        let silence = sightings.whereabouts().silence.unwrap();
        let shown: Vec<_> = silence.iter().map(|(server, _)| server.as_str()).collect();
        let both = ["a:1 (10.0.0.1:1)", "a:1 (10.0.0.1:2)", "b:1 (10.0.0.1:2)"];
        assert_eq!(shown, both);

        sightings.looked_up(&a, vec![]);
        assert_eq!(sightings.targets(), [address(1), address(2)], "the former ones stay");
        sightings.looked_up(&a, vec![address(3)]);
        assert_eq!(sightings.targets(), [address(3), address(2)]);
        let mut unknown = Sightings::new(std::slice::from_ref(&a));
        unknown.looked_up(&a, vec![]);
        assert_eq!(unknown.targets(), [a]);
    }

    #[test]
    fn masters_shard_is_asked_too() {
        let others: Vec<_> = (20..40).rev().map(address).collect();
        let shard = Ok(Sighted { epoch: 2, at: address(50), others });
        let targets = after(&[(1, shard)]).targets();
        let expected = [1, 2, 3, 50, 20, 21, 22, 23, 24, 25, 26].map(address);
        assert_eq!(targets, expected);
        let shard = Ok(Sighted { epoch: 2, at: address(50), others: vec![address(20)] });
        let failed = || Err(Reason::TimedOut);
        let mut alone = after(&[(1, shard.clone()), (20, shard)]);
        (1..=3).for_each(|server| alone.hear(address(server), failed()));
        assert_eq!(alone.whereabouts().silence, None);
        assert!(alone.whereabouts().location.unwrap().is_fresh);
        // Its word counts while it is asked, and no longer.
        let other = Ok(Sighted { epoch: 2, at: address(2), others: vec![address(3)] });
        let mut sightings = after(&[(1, other)]);
        sightings.hear(address(50), word(9, 60));
        assert_eq!(sightings.targets(), [1, 2, 3].map(address));
    }
}
