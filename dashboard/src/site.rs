//! What all requests to a dashboard share.

use std::sync::Arc;

use tower_redlock::{
    Redlock,
    scheduler::{JobStatus, SchedulerHandle},
};

use crate::{access::Authorize, actions::SentForms, events::EventLog, look::Looks};

/// The parts of a dashboard. Clones share them.
#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) redlock: Redlock,
    pub(crate) schedulers: Vec<SchedulerHandle>,
    /// `None` until access is configured: every request is answered 403.
    pub(crate) access: Option<Arc<dyn Authorize>>,
    pub(crate) looks: Arc<Looks>,
    pub(crate) log: Arc<EventLog>,
    pub(crate) sent: Arc<SentForms>,
}

impl Site {
    /// Returns a site without schedulers and access, which records the events of the manager from now on.
    pub(crate) fn new(redlock: Redlock) -> Self {
        let log = Arc::new(EventLog::default());
        log.follow_locks(redlock.events());
        log.start();
        let looks = Arc::new(Looks::new(redlock.clone()));
        let (schedulers, sent) = (Vec::new(), Arc::default());
        Self { redlock, schedulers, access: None, looks, log, sent }
    }

    /// Adds a scheduler, whose events are recorded from now on.
    pub(crate) fn add(&mut self, scheduler: SchedulerHandle) {
        self.log.follow_jobs(scheduler.events());
        self.log.start();
        self.schedulers.push(scheduler);
    }

    /// Returns the jobs of the schedulers of this process.
    pub(crate) fn jobs(&self) -> Vec<JobStatus> {
        self.schedulers.iter().flat_map(SchedulerHandle::jobs).collect()
    }
}
