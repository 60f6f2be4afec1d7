//! Pauses, requested runs and stops of a job, and their text on the nodes.

use std::{
    fmt::{self, Write as _},
    sync::Arc,
    time::{Duration, SystemTime},
};

use crate::{error::ServerText, schedule::WallTime};

/// What people have decided about a job, for the whole fleet: stored on a majority of the servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize))]
#[non_exhaustive]
pub struct JobControl {
    /// The pause, if there is one.
    pub paused: Option<JobPause>,
    /// The requested runs that no replica has taken over yet, the oldest first; at most
    /// [`MAX_REQUESTS`](Self::MAX_REQUESTS).
    pub requested: Vec<RequestedRun>,
    /// The latest request to stop a run, for a day; whether that run has ended is not known here.
    pub stop: Option<JobStop>,
    /// The time of the latest command.
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub changed: Option<SystemTime>,
}

/// A pause of a job on the whole fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize))]
#[non_exhaustive]
pub struct JobPause {
    /// Name of the person or program that paused it.
    pub by: Arc<str>,
    /// The reason that was given.
    pub why: Option<Arc<str>>,
    /// Its start.
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub at: SystemTime,
    /// Its end; `None` until it is resumed.
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub until: Option<SystemTime>,
}

/// A request to stop the run of a job, wherever it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize))]
#[non_exhaustive]
pub struct JobStop {
    /// The fencing token of the run. For a [parallel](crate::Job::parallel) job, a token of the job's lock:
    /// the runs stop whose ticks were claimed up to then.
    pub run: u64,
    /// Name of the person or program that requested it.
    pub by: Arc<str>,
    /// The reason that was given.
    pub why: Option<Arc<str>>,
    /// The time of the request.
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub at: SystemTime,
}

/// For example `stopped by ann: it fills the disk`.
impl fmt::Display for JobStop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stopped by {}", ServerText(&self.by))?;
        match &self.why {
            Some(why) => write!(f, ": {}", ServerText(why)),
            None => Ok(()),
        }
    }
}

/// A requested run of a job, which any replica of the fleet may start.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RequestedRun {
    /// Its number, unique in the namespace. A later request has a greater one.
    pub id: u64,
    /// Name of the person or program that requested it.
    pub by: Arc<str>,
    /// The reason that was given.
    pub why: Option<Arc<str>>,
    /// The time of the request.
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub at: SystemTime,
    /// It does not start later than this.
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub until: Option<SystemTime>,
}

impl JobControl {
    /// Maximum number of requested runs of a job that no replica has taken over.
    pub const MAX_REQUESTS: usize = 8;
    /// Maximum length of a name, in bytes.
    pub(super) const MAX_NAME_BYTES: usize = 128;
    /// Maximum length of a reason, in bytes.
    pub(super) const MAX_REASON_BYTES: usize = 200;
    /// Time for which a request to stop is kept.
    const STOP_KEPT: Duration = Duration::from_secs(86_400);

    /// Removes what is over at `now`. Returns the requests that were not started in time.
    pub(super) fn expire(&mut self, now: WallTime) -> Vec<RequestedRun> {
        self.paused.take_if(|pause| !is_before(now, pause.until));
        self.stop.take_if(|stop| !is_before(now, stop.at.checked_add(Self::STOP_KEPT)));
        let is_over = |request: &mut RequestedRun| !is_before(now, request.until);
        self.requested.extract_if(.., is_over).collect()
    }

    /// Returns the pause that applies at `now`.
    pub(in super::super) fn pause_at(&self, now: WallTime) -> Option<&JobPause> {
        self.paused.as_ref().filter(|pause| is_before(now, pause.until))
    }

    /// Returns the request to stop the run with this token. `claimed_by`: the token of the claim of a run
    /// beside others; a request stops all such runs that were claimed up to its own token.
    pub(in super::super) fn stop_of(
        &self,
        token: u64,
        claimed_by: Option<u64>,
    ) -> Option<&JobStop> {
        let is_meant = |stop: &&JobStop| match claimed_by {
            Some(claimed_by) => claimed_by <= stop.run,
            None => stop.run == token,
        };
        self.stop.as_ref().filter(is_meant)
    }

    /// Writes it as nodes store it: a line for the pause, for each request and for the stop.
    pub(super) fn to_text(&self) -> Arc<str> {
        let mut text = String::from("1\n");
        if let Some(JobPause { by, why, at, until }) = &self.paused {
            line(&mut text, 'p', 0, by, why.as_deref(), *at, *until);
        }
        for RequestedRun { id, by, why, at, until } in &self.requested {
            line(&mut text, 'r', *id, by, why.as_deref(), *at, *until);
        }
        if let Some(JobStop { run, by, why, at }) = &self.stop {
            line(&mut text, 's', *run, by, why.as_deref(), *at, None);
        }
        if let Some(at) = self.changed {
            line(&mut text, 'c', 0, "", None, at, None);
        }
        text.into()
    }

    /// Reads what nodes store. Lines that a later version added, or that are damaged, are ignored.
    pub(super) fn from_text(text: &str) -> Self {
        let mut control = Self::default();
        for (kind, request) in text.split('\n').filter_map(read_line) {
            let RequestedRun { id, by, why, at, until } = request;
            match kind {
                "p" => control.paused = Some(JobPause { by, why, at, until }),
                "r" if control.requested.len() < Self::MAX_REQUESTS => {
                    control.requested.push(RequestedRun { id, by, why, at, until });
                }
                "s" => control.stop = Some(JobStop { run: id, by, why, at }),
                "c" => control.changed = Some(at),
                _ => {}
            }
        }
        control
    }
}

/// Whether `now` is before the end, if there is one.
fn is_before(now: WallTime, end: Option<SystemTime>) -> bool {
    end.is_none_or(|end| now < WallTime::from(end))
}

fn line(
    text: &mut String,
    kind: char,
    id: u64,
    by: &str,
    why: Option<&str>,
    at: SystemTime,
    until: Option<SystemTime>,
) {
    let millis = |time| WallTime::from(time).as_millis();
    let (at, until) = (millis(at), until.map_or(0, millis));
    let (len, why) = (by.len(), why.unwrap_or_default());
    // Writing into memory does not fail.
    let _ = writeln!(text, "{kind} {id} {at} {until} {len} {by}{why}");
}

fn read_line(line: &str) -> Option<(&str, RequestedRun)> {
    let mut parts = line.splitn(6, ' ');
    let kind = parts.next()?;
    let id = parts.next()?.parse().ok()?;
    let mut time = || parts.next()?.parse().ok().map(WallTime::from_millis);
    let (at, until) = (time()?.into(), time()?);
    let until = (until > WallTime::ZERO).then(|| until.into());
    let len = parts.next()?.parse().ok()?;
    let (by, why) = parts.next()?.split_at_checked(len)?;
    let why = (!why.is_empty()).then(|| why.into());
    Some((kind, RequestedRun { id, by: by.into(), why, at, until }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::protocol::JobDocument;

    fn at(ms: u64) -> SystemTime {
        WallTime::from_millis(ms).into()
    }

    fn request(id: u64, until: Option<u64>) -> RequestedRun {
        RequestedRun { id, by: "b".into(), why: None, at: at(7), until: until.map(at) }
    }

    fn controls() -> impl Strategy<Value = JobControl> {
        let times = (1..1_u64 << 40, proptest::option::of(1..1_u64 << 40));
        let line = (any::<u64>(), "[^\\n]{0,20}", proptest::option::of("[^\\n]{1,20}"), times);
        let request = line.prop_map(|(id, by, why, (from, until))| RequestedRun {
            id,
            by: by.replace(char::is_control, " ").into(),
            why: why.map(|why| why.replace(char::is_control, " ").into()),
            at: at(from),
            until: until.map(at),
        });
        let pause =
            |it: RequestedRun| JobPause { by: it.by, why: it.why, at: it.at, until: it.until };
        let stop = |it: RequestedRun| JobStop { run: it.id, by: it.by, why: it.why, at: it.at };
        let paused = proptest::option::of(request.clone().prop_map(pause));
        let stop = proptest::option::of(request.clone().prop_map(stop));
        let changed = proptest::option::of((1..1_u64 << 40).prop_map(at));
        (paused, proptest::collection::vec(request, 0..8), stop, changed).prop_map(
            |(paused, requested, stop, changed)| JobControl { paused, requested, stop, changed },
        )
    }

    proptest! {
        #[test]
        fn control_survives_a_round_trip(control in controls()) {
            prop_assert_eq!(JobControl::from_text(&control.to_text()), control);
        }
    }

    /// Stored text outlives the program that wrote it.
    #[test]
    fn text_form_is_stable() {
        let pause = JobPause { by: "a b".into(), why: Some("c d".into()), at: at(5), until: None };
        let stop = JobStop { run: 7, by: "e".into(), why: Some("f".into()), at: at(6) };
        let requested = vec![request(9, Some(8))];
        let (paused, stop, changed) = (Some(pause), Some(stop), Some(at(8)));
        let control = JobControl { paused, requested, stop, changed };
        let text = "1\np 0 5 0 3 a bc d\nr 9 7 8 1 b\ns 7 6 0 1 ef\nc 0 8 0 0 \n";
        assert_eq!((&*control.to_text(), JobControl::from_text(text)), (text, control.clone()));
        assert_eq!(JobControl::from_text(&format!("2\nx 1\n{text}p 0\n")), control);
    }

    #[test]
    fn longest_document_fits() {
        let (by, why) =
            ("b".repeat(JobControl::MAX_NAME_BYTES), "w".repeat(JobControl::MAX_REASON_BYTES));
        let last = WallTime::MAX.into();
        let request = RequestedRun {
            id: u64::MAX,
            by: (&*by).into(),
            why: Some((&*why).into()),
            at: last,
            until: Some(last),
        };
        let (by, why) = (Arc::<str>::from(by), Some(why.into()));
        let stop = JobStop { run: u64::MAX, by: by.clone(), why: why.clone(), at: last };
        let pause = JobPause { by, why, at: last, until: Some(last) };
        let requested = vec![request; JobControl::MAX_REQUESTS];
        let (paused, stop, changed) = (Some(pause), Some(stop), Some(last));
        let control = JobControl { paused, requested, stop, changed };
        assert!(control.to_text().len() <= JobDocument::MAX_BYTES);
    }

    #[test]
    fn pause_and_requests_expire() {
        let pause = JobPause { by: "b".into(), why: None, at: at(1), until: Some(at(9)) };
        let requested = vec![request(1, None), request(2, Some(9)), request(3, Some(10))];
        let mut control = JobControl { paused: Some(pause), requested, ..JobControl::default() };
        let now = WallTime::from_millis;
        assert!(control.pause_at(now(8)).is_some() && control.pause_at(now(9)).is_none());
        assert_eq!(control.expire(now(8)), []);
        assert!(control.paused.is_some());
        assert_eq!(control.expire(now(9)), [request(2, Some(9))]);
        let requested = vec![request(1, None), request(3, Some(10))];
        assert_eq!(control, JobControl { requested, ..JobControl::default() });
    }

    #[test]
    fn stop_is_for_one_run() {
        let stop = JobStop { run: 7, by: "b".into(), why: None, at: at(1_000) };
        let mut control = JobControl { stop: Some(stop), ..JobControl::default() };
        let now = WallTime::from_millis;

        assert!(control.stop_of(7, None).is_some());
        assert!(control.stop_of(6, None).is_none() && control.stop_of(8, None).is_none());
        assert!(control.stop_of(9, Some(6)).is_some() && control.stop_of(9, Some(7)).is_some());
        assert!(control.stop_of(7, Some(8)).is_none(), "it was claimed later");
        control.expire(now(86_400_999));
        assert!(control.stop.is_some());
        control.expire(now(86_401_000));
        assert!(control.stop.is_none());
    }
}
