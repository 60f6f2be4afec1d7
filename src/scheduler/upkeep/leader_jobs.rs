//! The jobs of the scheduler that leads, as the replicas that stand by compare them with their own.

use std::{collections::HashSet, fmt::Write as _, future::pending, sync::Arc, time::Duration};

use super::super::{JobConflict, event_sink::EventSink, roster::Roster, shared_job::SharedJob};
use crate::{
    leader::{Leader, Leadership},
    lock::{Redlock, documents},
    protocol::JobDocument,
    random,
    token::FencingToken,
};

/// Pause before a replica reads the jobs of a leader that it has not seen before.
const FIRST_READ_PAUSE: Duration = Duration::from_secs(60);
/// Interval between reads of the jobs of the same leader.
const READ_INTERVAL: Duration = Duration::from_secs(600);
/// Pause after a list that could not be stored.
const STORE_PAUSE: Duration = Duration::from_secs(5);

/// The names of the leader's jobs, in their order; the first ones if they are too many for a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct LeaderJobs {
    owner: Arc<str>,
    names: Vec<Arc<str>>,
    is_whole: bool,
}

impl LeaderJobs {
    fn new(owner: Arc<str>, mut names: Vec<Arc<str>>) -> Self {
        names.sort_unstable();
        Self { owner, names, is_whole: true }
    }

    /// Writes it as nodes store it: a line for the owner and for each name, and a last one if all are there.
    fn to_text(&self) -> Arc<str> {
        const END: &str = "e \n";
        let mut text = String::new();
        // Writing into memory does not fail.
        let _ = write!(text, "1\no {}\n", self.owner);
        for name in &self.names {
            if text.len() + "j \n".len() + name.len() + END.len() > JobDocument::MAX_BYTES {
                return text.into();
            }
            let _ = writeln!(text, "j {name}");
        }
        text.push_str(END);
        text.into()
    }

    /// Reads what nodes store. Lines that a later version added, or that are damaged, are ignored.
    fn from_text(text: &str) -> Self {
        let mut jobs = Self::default();
        for line in text.split('\n') {
            match line.split_once(' ') {
                Some(("o", owner)) => jobs.owner = owner.into(),
                Some(("j", name)) => jobs.names.push(name.into()),
                Some(("e", _)) => jobs.is_whole = true,
                _ => {}
            }
        }
        jobs
    }

    /// Returns the jobs that the leader does not have, as far as the list says.
    fn lacks<'a>(&self, jobs: &'a [Arc<SharedJob>]) -> HashSet<&'a str> {
        let known: HashSet<&str> = self.names.iter().map(|name| &**name).collect();
        let is_listed =
            |name: &str| self.is_whole || self.names.last().is_some_and(|last| name <= &**last);
        let names = jobs.iter().map(|job| &*job.name);
        names.filter(|name| is_listed(name) && !known.contains(name)).collect()
    }
}

/// Stores the names of this replica's jobs while it leads, and again when they change. Does not end.
pub(super) async fn publish(
    redlock: &Redlock,
    roster: &Roster,
    leader: &Leader,
    token: FencingToken,
) {
    let mut changes = roster.changes();
    let mut stored = None;
    for number in 0.. {
        let text = loop {
            changes.mark_unchanged();
            let names = roster.jobs().iter().map(|job| Arc::clone(&job.name)).collect();
            let text = LeaderJobs::new(Arc::clone(redlock.owner()), names).to_text();
            if stored.as_ref() != Some(&text) {
                break text;
            }
            if changes.changed().await.is_err() {
                pending::<()>().await;
            }
        };
        let (document, name, token) = (JobDocument::LeaderJobs, leader.name(), token.get());
        match documents::store(redlock, document, name, token, number, text.clone()).await {
            Ok(()) => stored = Some(text),
            Err(error) => {
                crate::log::debug!(leader = %leader.name(), %error, "the leader's jobs are not stored");
                redlock.sleep(STORE_PAUSE).await;
            }
        }
    }
}

/// While another replica leads, compares its jobs with those of this one. Does not end.
pub(in super::super) async fn watch_leader(
    redlock: &Redlock,
    roster: &Roster,
    events: &EventSink,
    leader: Option<&Leader>,
) {
    let Some(leader) = leader else { return pending().await };
    let mut transitions = leader.transitions();
    loop {
        let leadership = transitions.borrow_and_update().clone();
        let Leadership::Standby { leader: Some(owner) } = leadership else {
            if leadership.is_leading() {
                roster.jobs().iter().for_each(|job| job.end_not_led());
            }
            if transitions.changed().await.is_err() {
                pending::<()>().await;
            }
            continue;
        };
        let mut pause = FIRST_READ_PAUSE;
        loop {
            tokio::select! {
                biased;
                _ = transitions.changed() => break,
                () = redlock.sleep(random::within(&(pause..=pause * 5 / 4))) => {}
            }
            if let Some(led) = read(redlock, leader, &owner).await {
                compare(redlock, events, &led, leader, &roster.jobs());
            }
            pause = READ_INTERVAL;
        }
    }
}

/// Reads the jobs of the leader; `None` if the list of this one is not stored, as by an earlier version.
async fn read(redlock: &Redlock, leader: &Leader, owner: &str) -> Option<LeaderJobs> {
    let name = std::slice::from_ref(leader.name());
    match documents::read(redlock, JobDocument::LeaderJobs, name).await {
        Ok(texts) => {
            let led = LeaderJobs::from_text(texts.first().map_or("", |text| text));
            Some(led).filter(|led| *led.owner == *owner)
        }
        Err(error) => {
            crate::log::debug!(leader = %leader.name(), %error, "the leader's jobs were not read");
            None
        }
    }
}

/// Reports the jobs that the leader does not have.
fn compare(
    redlock: &Redlock,
    events: &EventSink,
    led: &LeaderJobs,
    leader: &Leader,
    jobs: &[Arc<SharedJob>],
) {
    let lacking = led.lacks(jobs);
    for job in jobs {
        if lacking.contains(&*job.name) {
            let (by, leader) = (Arc::clone(&led.owner), Arc::clone(leader.name()));
            events.report_conflict(redlock, job, JobConflict::NotLed { by, leader });
        } else {
            job.end_not_led();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jobs(names: &[&str]) -> LeaderJobs {
        LeaderJobs::new("svc 1".into(), names.iter().map(|name| Arc::from(*name)).collect())
    }

    /// Stored text outlives the program that wrote it.
    #[test]
    fn text_form_is_stable() {
        let text = "1\no svc 1\nj a b\nj c\ne \n";
        assert_eq!(&*jobs(&["c", "a b"]).to_text(), text);
        assert_eq!(LeaderJobs::from_text(text), jobs(&["a b", "c"]));
        assert_eq!(LeaderJobs::from_text(&format!("{text}x 1\n?")), jobs(&["a b", "c"]));
        assert_eq!(LeaderJobs::from_text(""), LeaderJobs::default());
    }

    #[test]
    fn many_jobs_are_listed_in_part() {
        let names: Vec<Arc<str>> = (100..999).map(|i| format!("job-{i}").into()).collect();
        let text = LeaderJobs::new("me".into(), names).to_text();
        assert!(text.len() <= JobDocument::MAX_BYTES, "{}", text.len());

        let read = LeaderJobs::from_text(&text);
        assert!(!read.is_whole && read.names.len() > 400);
        let last = read.names.last().unwrap();
        assert!(**last < *"job-999", "{last}");
    }
}
