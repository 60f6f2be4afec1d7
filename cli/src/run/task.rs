//! What the command is run for: a lock, a once key, or the tick of a job.

use std::time::Duration;

use tower_redlock::{Redlock, Resource, Schedule, scheduler::TickRequest};

use super::args::{Moment, RunArgs};
use crate::exit::Failure;

/// What the command is run for.
pub(super) enum Task<'a> {
    Lock(Resource),
    Once(&'a str),
    Tick(&'a str, Box<TickRequest>),
}

impl<'a> Task<'a> {
    pub(super) fn new(redlock: &Redlock, args: &'a RunArgs) -> Result<Self, Failure> {
        if let Some(key) = &args.once {
            return Ok(Self::Once(key));
        }
        if let Some(job) = &args.tick {
            return tick_request(redlock, job, args).map(|request| Self::Tick(job, request.into()));
        }
        let resource = match &args.leader {
            Some(name) => Resource::of_leader(name),
            None => Resource::new(args.names.iter().map(String::as_str)),
        };
        resource.map(Self::Lock).map_err(|error| Failure::usage(error.to_string()))
    }
}

fn tick_request(redlock: &Redlock, job: &str, args: &RunArgs) -> Result<TickRequest, Failure> {
    let expression = args.cron.as_deref().unwrap_or_default();
    let zone = args.tz.as_deref().unwrap_or("UTC");
    let schedule = Schedule::cron(expression).and_then(|cron| cron.in_tz(zone));
    let schedule = schedule.map_err(|error| Failure::usage(error.to_string()))?;
    let mut request = redlock.job_tick(job, schedule).attempts(args.attempts);
    if let Some(Moment(Some(at))) = args.at {
        request = request.at(at);
    }
    if let Some(early) = args.early {
        request = request.early(early);
    }
    // This program kills its command itself.
    Ok(request.stop_grace(Duration::MAX))
}
