//! What all requests to a dashboard share.

use std::sync::Arc;

use tower_redlock::{Redlock, SchedulerHandle, scheduler::JobStatus};

use crate::{
    access::{Authorize, Subject},
    actions::SentForms,
    cache::{FleetSnapshot, FleetSnapshots, LockDetails, LockListing},
    events::EventLog,
    recent::Recent,
    set_place::SetPlace,
};

/// The parts of a dashboard. Clones share them.
#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) redlock: Redlock,
    pub(crate) schedulers: Vec<SchedulerHandle>,
    /// `None` until access is configured: every request is answered 403.
    pub(crate) access: Option<Arc<dyn Authorize>>,
    pub(crate) snapshots: Arc<FleetSnapshots>,
    pub(crate) log: Arc<EventLog>,
    pub(crate) recent: Arc<Recent>,
    pub(crate) sent: Arc<SentForms>,
}

impl Site {
    /// Returns a site without schedulers and access, which records the events of the manager from now on.
    pub(crate) fn new(redlock: Redlock) -> Self {
        let (log, recent) = (Arc::new(EventLog::default()), Arc::new(Recent::new(redlock.clone())));
        log.follow_locks(redlock.events(), &recent);
        let snapshots = Arc::new(FleetSnapshots::new(redlock.clone()));
        let (schedulers, sent) = (Vec::new(), Arc::default());
        let site = Self { redlock, schedulers, access: None, snapshots, log, recent, sent };
        site.start();
        site
    }

    /// Starts to record what no task records yet, if there is a runtime. Each request calls it.
    pub(crate) fn start(&self) {
        self.log.start();
        self.recent.start();
    }

    /// Returns every lock of the fleet, and records the holders of those that are followed.
    pub(crate) async fn locks(&self) -> Option<Arc<FleetSnapshot<LockListing>>> {
        let snapshot = self.snapshots.locks().await?;
        self.recent.listed(&snapshot.value.locks, snapshot.start);
        Some(snapshot)
    }

    /// Returns what the servers say of a lock, and records its holder.
    pub(crate) async fn lock(&self, name: &str) -> Option<Arc<FleetSnapshot<LockDetails>>> {
        let snapshot = self.snapshots.lock(name).await?;
        if let Ok(held) = &snapshot.value {
            let shown = held.as_ref().map(|held| &held.shown);
            self.recent.seen(name, shown, snapshot.start);
        }
        Some(snapshot)
    }

    /// Adds a scheduler, whose events are recorded from now on.
    pub(crate) fn add(&mut self, scheduler: SchedulerHandle) {
        self.log.follow_jobs(scheduler.events());
        self.start();
        self.schedulers.push(scheduler);
    }

    /// Returns the set that a name belongs to, if there are several.
    pub(crate) fn set_of(&self, subject: Subject, name: &str) -> Option<SetPlace> {
        SetPlace::of(&self.redlock, subject, name)
    }

    /// Returns the jobs of the schedulers of this process.
    pub(crate) fn jobs(&self) -> Vec<JobStatus> {
        self.schedulers.iter().flat_map(SchedulerHandle::jobs).collect()
    }
}
