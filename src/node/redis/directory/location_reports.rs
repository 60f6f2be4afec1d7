//! Decides which of the reported locations of a server is current.

use super::Location;
use crate::{error::Reason, node::redis::Address};

/// Maximum number of a Cluster's servers that are queried besides the servers of the URL.
const MAX_OTHERS: usize = 8;
/// Maximum number of addresses of one host name that are queried.
const MAX_ADDRESSES: usize = 8;

/// The location reported by one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReportedLocation {
    /// The epoch of the configuration. The report with the greatest epoch is the current one.
    pub(super) epoch: u64,
    pub(super) at: Address,
    /// Further servers that can be queried.
    pub(super) others: Vec<Address>,
}

/// The latest report of each server of a directory.
///
/// The report with the greatest epoch counts, so that a failover is not undone by servers that
/// learn of it later. A report is replaced by the next one of the same server, or removed when the
/// server fails to answer. So servers whose epochs restart at a lower number are believed as soon
/// as no server repeats the former epoch.
#[derive(Debug)]
pub(super) struct LocationReports {
    servers: Vec<UrlServer>,
    answers: Vec<(Address, Result<ReportedLocation, Reason>)>,
    latest: Option<Location>,
}

/// A server of the URL, and the latest addresses of its host name; empty before the first lookup.
#[derive(Debug)]
struct UrlServer {
    name: Address,
    addresses: Vec<Address>,
}

/// The current result of all reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LocationState {
    /// The reported location, or the last known one.
    pub(super) location: Option<Location>,
    /// Why no server reports a location: the failure of each.
    pub(super) failures: Option<DirectoryFailures>,
}

/// The servers that failed to answer, by name and address, and the reasons.
pub(super) type DirectoryFailures = Vec<(String, Reason)>;

impl LocationReports {
    pub(super) fn new(servers: &[Address]) -> Self {
        let unknown = |name: &Address| UrlServer { name: name.clone(), addresses: Vec::new() };
        Self { servers: servers.iter().map(unknown).collect(), answers: Vec::new(), latest: None }
    }

    /// Records the addresses of a host name of the URL. If none was found, the former addresses
    /// stay. If there are none, the name itself is queried, which fails with the reason.
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

    /// Returns the host name of the URL that has this address.
    pub(super) fn name_of(&self, address: &Address) -> Option<&Address> {
        let server = self.servers.iter().find(|server| server.addresses.contains(address))?;
        Some(&server.name)
    }

    /// Records the answer of a server.
    pub(super) fn record(&mut self, from: Address, answer: Result<ReportedLocation, Reason>) {
        match self.answers.iter_mut().find(|(server, _)| *server == from) {
            Some((_, stored)) => *stored = answer,
            None => self.answers.push((from, answer)),
        }
        self.forget_others();
    }

    /// Removes the answers of servers that are not queried any more.
    fn forget_others(&mut self) {
        let targets = self.targets();
        self.answers.retain(|(server, _)| targets.contains(server));
    }

    /// Returns the location that results from the answers so far.
    pub(super) fn state(&mut self) -> LocationState {
        let answer = self.current();
        let reported = answer.map(|ReportedLocation { at, epoch, .. }| Location {
            address: at.clone(),
            epoch: *epoch,
            is_fresh: true,
        });
        // The last known location, while no server reports one.
        let latest = || self.latest.clone().map(|it| Location { is_fresh: false, ..it });
        let is_reported = reported.is_some();
        self.latest = reported.or_else(latest);
        let failures = if is_reported { None } else { self.failures() };
        LocationState { location: self.latest.clone(), failures }
    }

    /// Returns the servers to query: the servers of the URL, and the servers of the shard, which
    /// may outlive them.
    pub(super) fn targets(&self) -> Vec<Address> {
        let mut targets: Vec<Address> = Vec::new();
        for address in self.servers.iter().flat_map(|server| &server.addresses) {
            if !targets.contains(address) {
                targets.push(address.clone());
            }
        }
        if let Some(answer) = self.current()
            && !answer.others.is_empty()
        {
            let mut others: Vec<_> = answer.others.iter().collect();
            others.sort_unstable_by_key(ToString::to_string);
            let others = std::iter::once(&answer.at).chain(others);
            let others = others.filter(|other| !targets.contains(other)).take(MAX_OTHERS);
            let others: Vec<_> = others.cloned().collect();
            targets.extend(others);
        }
        targets
    }

    /// Returns the report with the greatest epoch; of several, the one that is already in use.
    fn current(&self) -> Option<&ReportedLocation> {
        let answers = || self.answers.iter().filter_map(|(_, answer)| answer.as_ref().ok());
        let epoch = answers().map(|answer| answer.epoch).max()?;
        let latest = || answers().filter(|answer| answer.epoch == epoch);
        let is_known = |answer: &&ReportedLocation| {
            self.latest.as_ref().is_some_and(|it| it.address == answer.at)
        };
        latest().find(is_known).or_else(|| latest().next())
    }

    /// Returns the failures, once every server has failed.
    fn failures(&self) -> Option<DirectoryFailures> {
        let mut failures = DirectoryFailures::new();
        for UrlServer { name, addresses } in &self.servers {
            if addresses.is_empty() {
                return None;
            }
            for address in addresses {
                let (_, reported) = self.answers.iter().find(|(known, _)| known == address)?;
                let reason = reported.as_ref().err()?.clone();
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
    fn answer(epoch: u64, port: u16) -> Result<ReportedLocation, Reason> {
        Ok(ReportedLocation { epoch, at: address(port), others: Vec::new() })
    }

    /// Three servers at the ports 1 to 3, which give these answers in this order.
    fn after(answers: &[(u16, Result<ReportedLocation, Reason>)]) -> LocationReports {
        let servers = [1, 2, 3].map(address);
        let mut reports = LocationReports::new(&servers);
        for server in &servers {
            reports.looked_up(server, vec![server.clone()]);
        }
        for (from, answer) in answers {
            reports.record(address(*from), answer.clone());
            reports.state();
        }
        reports
    }

    fn place(answers: &[(u16, Result<ReportedLocation, Reason>)]) -> Option<(Address, u64, bool)> {
        let LocationState { location, .. } = after(answers).state();
        location.map(|it| (it.address, it.epoch, it.is_fresh))
    }

    #[test]
    fn greatest_epoch_counts() {
        let (old, new) = (answer(3, 10), answer(4, 11));
        for answers in [
            vec![(1, old.clone()), (2, new.clone())],
            vec![(2, new.clone()), (1, old.clone()), (3, old.clone())],
            vec![(1, old.clone()), (2, new.clone()), (1, new.clone()), (3, old.clone())],
        ] {
            assert_eq!(place(&answers), Some((address(11), 4, true)), "{answers:?}");
        }
    }

    #[test]
    fn unreported_location_keeps_address_and_epoch() {
        let failed = || Err(Reason::TimedOut);
        let all = [(1, answer(4, 11)), (1, failed()), (2, failed()), (3, failed())];

        assert_eq!(place(&all), Some((address(11), 4, false)));

        let failures = after(&all).state().failures.unwrap();
        assert_eq!(failures.len(), 3);

        // The first server to answer again may be outdated, but it is the only source.
        let behind = [&all[..], &[(2, answer(3, 10))]].concat();
        assert_eq!(place(&behind), Some((address(10), 3, true)));

        let known = [&behind[..], &[(3, answer(4, 11))]].concat();
        assert_eq!(place(&known), Some((address(11), 4, true)));
    }

    #[test]
    fn some_failing_servers_hide_no_location() {
        let failed = || Err(Reason::TimedOut);
        assert_eq!(place(&[(1, failed()), (2, failed())]), None);
        assert_eq!(after(&[(1, failed()), (2, failed())]).state().failures, None);
        let one = [(1, failed()), (2, failed()), (3, answer(1, 10))];
        assert_eq!(place(&one), Some((address(10), 1, true)));
        assert_eq!(after(&one).state().failures, None);
    }

    /// Two names of one server, as reported by Sentinels with different settings.
    #[test]
    fn equal_epochs_change_nothing() {
        let answers =
            [(1, answer(4, 10)), (2, answer(4, 11)), (3, answer(4, 11)), (1, answer(4, 10))];
        for count in 1..=answers.len() {
            assert_eq!(place(&answers[..count]), Some((address(10), 4, true)), "{count}");
        }
        let gone = [&answers[..], &[(1, Err(Reason::TimedOut))]].concat();
        assert_eq!(place(&gone), Some((address(11), 4, true)));
    }

    /// The service was set up again, one Sentinel after another.
    #[test]
    fn epochs_may_restart_on_all_servers() {
        let before = [(1, answer(7, 10)), (2, answer(7, 10)), (3, answer(7, 10))];
        let two = [&before[..], &[(1, answer(0, 11)), (2, answer(0, 11))]].concat();
        assert_eq!(place(&two), Some((address(10), 7, true)));
        let all = [&two[..], &[(3, answer(0, 11))]].concat();
        assert_eq!(place(&all), Some((address(11), 0, true)));
    }

    #[test]
    fn addresses_of_names_are_queried() {
        let name = |host: &str| Address::Tcp { host: host.into(), port: 1 };
        let (a, b) = (name("a"), name("b"));
        let mut reports = LocationReports::new(&[a.clone(), b.clone()]);
        assert_eq!(reports.targets(), []);
        reports.looked_up(&a, vec![address(1), address(2)]);
        reports.record(address(1), Err(Reason::TimedOut));
        reports.record(address(2), Err(Reason::Disconnected));
        assert_eq!(reports.state().failures, None, "the other name is looked up");
        reports.looked_up(&b, vec![address(2)]);
        assert_eq!(reports.targets(), [address(1), address(2)]);
        assert_eq!(reports.name_of(&address(2)), Some(&a));
        let failures = reports.state().failures.unwrap();
        let shown: Vec<_> = failures.iter().map(|(server, _)| server.as_str()).collect();
        let both = ["a:1 (10.0.0.1:1)", "a:1 (10.0.0.1:2)", "b:1 (10.0.0.1:2)"];
        assert_eq!(shown, both);

        reports.looked_up(&a, vec![]);
        assert_eq!(reports.targets(), [address(1), address(2)], "the former ones stay");
        reports.looked_up(&a, vec![address(3)]);
        assert_eq!(reports.targets(), [address(3), address(2)]);
        let mut unknown = LocationReports::new(std::slice::from_ref(&a));
        unknown.looked_up(&a, vec![]);
        assert_eq!(unknown.targets(), [a]);
    }

    #[test]
    fn masters_shard_is_queried_too() {
        let others: Vec<_> = (20..40).rev().map(address).collect();
        let shard = Ok(ReportedLocation { epoch: 2, at: address(50), others });
        let targets = after(&[(1, shard)]).targets();

        let expected = [1, 2, 3, 50, 20, 21, 22, 23, 24, 25, 26].map(address);

        assert_eq!(targets, expected);

        let shard = Ok(ReportedLocation { epoch: 2, at: address(50), others: vec![address(20)] });
        let failed = || Err(Reason::TimedOut);
        let mut alone = after(&[(1, shard.clone()), (20, shard)]);
        (1..=3).for_each(|server| alone.record(address(server), failed()));

        assert_eq!(alone.state().failures, None);
        assert!(alone.state().location.unwrap().is_fresh);

        // The answer counts only while the server is queried.
        let other = Ok(ReportedLocation { epoch: 2, at: address(2), others: vec![address(3)] });
        let mut reports = after(&[(1, other)]);
        reports.record(address(50), answer(9, 60));

        assert_eq!(reports.targets(), [1, 2, 3].map(address));
    }
}
