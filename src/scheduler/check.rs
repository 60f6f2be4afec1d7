//! The checks of jobs before they start.

use std::{collections::HashSet, sync::Arc, time::Duration};

use super::{Job, StartError, job::JobOptions};
use crate::{lock::Redlock, resource::Resource};

pub(super) fn check_all(redlock: &Redlock, jobs: &[Job]) -> Result<(), StartError> {
    let mut names = HashSet::new();
    for job in jobs {
        let name: Arc<str> = job.name.as_str().into();
        let invalid =
            |reason: &str| Err(StartError::InvalidJob { job: name.clone(), reason: reason.into() });
        if name.is_empty() {
            return invalid("the name is empty");
        }
        if let Err(error) = Resource::of_job(&name) {
            return Err(StartError::InvalidName { job: name, error });
        }
        if !names.insert(Arc::clone(&name)) {
            return Err(StartError::DuplicateJob { job: name });
        }
        if let Err(error) = job.schedule.check() {
            return Err(StartError::Schedule { job: name, error });
        }
        let JobOptions { lock, min_hold, policy, .. } = &job.options;
        if let Err(reason) = lock.refuse_waiting() {
            return invalid(&reason);
        }
        let max_run = job.options.lock().max_hold.unwrap_or(Duration::MAX);
        if max_run.is_zero() {
            return invalid("max_run is zero");
        }
        if *min_hold > max_run {
            return invalid("min_hold is longer than max_run");
        }
        if policy.start_within.is_zero() {
            return invalid("start_within is zero: no tick would be on time");
        }
        let max_ttl = redlock.max_ttl();
        if let Some(ttl) = lock.ttl.filter(|ttl| *ttl > max_ttl) {
            return invalid(&format!(
                "its ttl of {ttl:?} is above the manager's max_ttl of {max_ttl:?}: build the manager with max_ttl({ttl:?}) or more, on all replicas, or give the job a shorter ttl"
            ));
        }
        let request = job.options.request(redlock, &name);
        request.check().map_err(|error| StartError::lock(&name, error))?;
    }
    Ok(())
}
