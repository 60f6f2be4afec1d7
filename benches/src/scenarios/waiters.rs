//! Requests of one process that wait for as many names, which another process releases: all at
//! once, or some at a time, so that only the number of waiters differs.

use std::{
    future::IntoFuture,
    thread,
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream};
use tokio::{runtime::Runtime, task::JoinSet, time::timeout};
use tower_redlock::{Lock, Redlock, RedlockBuilder};

use crate::{
    contestants::{Kind, votes},
    options::Options,
    report::format::{significant, time},
    samples::emit,
    servers::Servers,
    spread::rank,
};

pub(crate) const WAITERS: [usize; 3] = [1_000, 5_000, 20_000];
/// Duration of the pause, beyond which connections to a silent server are replaced.
const SERVER_PAUSE: Duration = Duration::from_secs(1);
/// Timeout for the last waiter.
const LAST_GRANT_TIMEOUT: Duration = Duration::from_secs(60);
/// TTL of the lock that the waiting process holds.
const RENEWED_TTL: Duration = Duration::from_secs(3);

/// TTL of the locks that are released. They are not renewed, as 20,000 renewals would be a load of
/// their own.
const HELD_TTL: Duration = LAST_GRANT_TIMEOUT;
/// Number of names that are released and not yet granted again, if they are not released all at
/// once.
const AT_A_TIME: usize = 64;

/// The way in which the names are released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    AllAtOnce,
    /// Three of the five servers are stopped (SIGSTOP) and continued; then all names are released
    /// at once.
    AfterPause,
    /// One name for each that is granted.
    SomeAtATime,
}

impl Course {
    pub(crate) const ALL: [Self; 3] = [Self::AllAtOnce, Self::AfterPause, Self::SomeAtATime];

    fn at_a_time(self) -> usize {
        if self == Self::SomeAtATime { AT_A_TIME } else { usize::MAX }
    }
}

/// The reported quantities, by the names that the report uses.
pub(crate) const RATE: &str = "grants per s";
pub(crate) const P50: &str = "until half of the grants";
pub(crate) const P99: &str = "until 99 % of the grants";
pub(crate) const LAST: &str = "until the last grant";
pub(crate) const MISSED: &str = "not granted";
pub(crate) const KEPT: &str = "renewed lock kept";

pub(crate) fn case(waiters: usize, course: Course) -> String {
    let course = match course {
        Course::AllAtOnce => String::new(),
        Course::AfterPause => ", after a pause of 1 s".into(),
        Course::SomeAtATime => format!(", {AT_A_TIME} names at a time"),
    };
    format!("{waiters} waiters{course}")
}

pub(crate) fn measure(servers: &Servers, options: &Options) {
    for course in Course::ALL {
        options.rounds(&WAITERS, |waiters| {
            let runtime = Runtime::new().expect("the system gives threads");
            let outcome = runtime.block_on(measure_one(servers, waiters, course));
            drop(runtime);
            servers.settle();
            outcome.emit(&case(waiters, course), waiters);
        });
    }
}

#[derive(Debug)]
struct Outcome {
    /// Time from the release to each grant, in seconds, sorted.
    sorted: Vec<f64>,
    is_kept: bool,
}

impl Outcome {
    #[expect(clippy::cast_precision_loss, reason = "numbers for people")]
    fn emit(&self, case: &str, waiters: usize) {
        let who = Kind::Ours.name();
        let granted = self.sorted.len();
        let missed = (waiters - granted) as f64;
        let lost = if self.is_kept { "" } else { ", the renewed lock was LOST" };
        eprintln!("  {case}: {granted} granted, {missed} missed{lost}");
        if granted > 0 {
            let [p50, p99, slowest] = [50, 99, 100].map(|percent| rank(&self.sorted, percent));
            let per_second = granted as f64 / slowest;
            eprintln!("    {} per s, last after {}", significant(per_second), time(slowest));
            emit(case, who, RATE, per_second);
            emit(case, who, P50, p50);
            emit(case, who, P99, p99);
            emit(case, who, LAST, slowest);
        }
        emit(case, who, MISSED, missed);
        emit(case, who, KEPT, f64::from(u8::from(self.is_kept)));
    }
}

async fn measure_one(servers: &Servers, waiters: usize, course: Course) -> Outcome {
    let holder = connect(servers, waiters).await;
    let crowded = connect(servers, waiters).await;
    let mut held = hold_all(&holder, waiters).await;
    let renewed = crowded.lock("bench:renewed").ttl(RENEWED_TTL).await.expect("it is free");
    let mut waiting = JoinSet::new();
    for waiter in 0..waiters {
        let request = crowded.lock(name(waiter)).wait(2 * LAST_GRANT_TIMEOUT);
        waiting.spawn(async move {
            drop(request.await.expect("it has time"));
            Instant::now()
        });
    }
    let all_listen = async {
        while servers.fewest_channels() < waiters {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    if timeout(LAST_GRANT_TIMEOUT, all_listen).await.is_err() {
        eprintln!("    not all of {waiters} were told of releases after {LAST_GRANT_TIMEOUT:?}");
    }
    if course == Course::AfterPause {
        let frozen = servers.freeze_most();
        thread::sleep(SERVER_PAUSE);
        drop(frozen);
    }
    let started = Instant::now();
    held.truncate(held.len().saturating_sub(course.at_a_time()));
    let mut sorted = Vec::new();
    while let Ok(Some(granted)) =
        timeout(LAST_GRANT_TIMEOUT.saturating_sub(started.elapsed()), waiting.join_next()).await
    {
        drop(held.pop());
        let granted = granted.expect("no task panics");
        sorted.push(granted.duration_since(started).as_secs_f64());
    }
    sorted.sort_by(f64::total_cmp);
    let is_kept = renewed.is_valid();
    waiting.shutdown().await;
    drop(renewed);
    crowded.shutdown().await;
    holder.shutdown().await;
    Outcome { sorted, is_kept }
}

async fn connect(servers: &Servers, waiters: usize) -> Redlock {
    let builder: RedlockBuilder = Redlock::builder().nodes(servers.urls());
    let builder = builder.max_ttl(HELD_TTL).max_waiters_in_total(waiters + 1);
    let redlock = builder.build().expect("valid settings");
    votes(&redlock, servers.alive()).await;
    redlock
}

fn name(waiter: usize) -> String {
    format!("bench:waiters:{waiter}")
}

async fn hold_all(redlock: &Redlock, count: usize) -> Vec<Lock> {
    let request =
        |i| redlock.lock(name(i)).wait(LAST_GRANT_TIMEOUT).ttl(HELD_TTL).auto_extend(false);
    let requests = (0..count).map(|i| request(i).into_future());
    let held = stream::iter(requests).buffer_unordered(64);
    held.map(|lock| lock.expect("it is free")).collect().await
}
