//! The course of `run`: it waits for servers and for the lock, runs the command, and ends.

use std::{
    cell::Cell,
    convert::Infallible,
    io::{IsTerminal, stderr},
    pin::pin,
    process::ExitCode,
    time::{Duration, SystemTime},
};

use futures_util::future::join_all;
use humantime::format_rfc3339_seconds;
use rustix::process::{Signal, getpid, kill_process};
use tokio::{
    io::{copy, sink, stdin},
    sync::Mutex,
    time::{Instant, sleep, timeout},
};
use tower_redlock::{
    LockContext, LockError, LockOptions, Redlock, Resource,
    lock::{Holder, NotReady},
    once::{Once, OnceError},
};

use super::{
    ancestors::{self, Held},
    args::{RunArgs, Task},
    clock::KILL_MARGIN,
    command::{MODE_VARIABLE, SLOT_VARIABLE, WatchedCommand, shown},
    ended::{Ended, Outcome},
    hook::shell,
    messages::{Order, Sender},
    signals::SignalRouter,
    start,
    waiting::Waiting,
    watchdog,
    work::Work,
};
use crate::{
    exit::Failure,
    locks::owners,
    options::SharedArgs,
    output::{age, say, short},
    settings::Settings,
};

/// Minimum TTL: the command must have time to stop.
const MIN_TTL: Duration = Duration::from_secs(1);
/// Time for the first connections, if `run` does not wait for the lock.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(3500);
/// Interval between checks whether the servers may still vote.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// Limit for giving back a tick.
const GIVE_BACK_TIMEOUT: Duration = Duration::from_secs(2);
/// Limit for the last release.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval between the checks whether a record is stored.
const OWED_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Time for the command to end after the standard input has, by default.
const STDIN_GRACE: Duration = Duration::from_secs(10);

/// Does the part of a process that `run` starts from this program, if this is one.
pub(crate) fn helper() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    match args.next()?.to_str()? {
        start::ARGUMENT => Some(start::main(args)),
        watchdog::ARGUMENT => Some(watchdog::main(args)),
        _ => None,
    }
}

/// What `run` needs to start the command once the lock is held.
pub(super) struct Runner<'a> {
    pub(super) args: &'a RunArgs,
    pub(super) redlock: Redlock,
    /// The set of servers that decides about the task.
    pub(super) servers: Redlock,
    held: Held,
    pub(super) signals: SignalRouter,
    pub(super) waiting: Waiting,
    orders: Sender,
    command: Mutex<WatchedCommand>,
    /// With `--tick`: the tick that the start is for, and the number of the attempt; zero before the command
    /// is started.
    pub(super) tick: Cell<Option<(SystemTime, u32)>>,
    /// With `--shared`: the process above this one that shares the name as well.
    reader_above: Option<i32>,
    /// Whether the lock was granted.
    is_granted: Cell<bool>,
    /// Whether to print what needs no attention.
    pub(super) is_verbose: bool,
}

pub(crate) async fn run(shared: &SharedArgs, args: &RunArgs) -> Result<ExitCode, Failure> {
    let settings = Settings::new(shared)?;
    let redlock = build(&settings, args)?;
    let task = Task::new(&redlock, args)?;
    let names = task.lock_names();
    let set = names.first().map_or(0, |name| redlock.set_index(name));
    let servers = redlock.sets()[set].clone();
    let held = Held::new(&redlock, settings.prefix(), names);
    let above = held.above();
    let refused =
        |reason| Err(Failure::usage(format!("{} was not run: {reason}", shown(&args.command))));
    if args.pass_through && !above.is_empty() {
        return match ancestors::uncovered(&task, &above) {
            Some(reason) => refused(reason),
            None => Err(start::replace(&args.command)),
        };
    }
    if let Some(reason) = ancestors::endless_wait(&task, &above) {
        return refused(reason);
    }
    let reader_above =
        above.first().map(|held| held.pid).filter(|_| matches!(task, Task::Shared(_)));
    // Before anything is locked or claimed for it.
    start::check(&args.command)?;
    let signals = SignalRouter::start()?;
    let command = WatchedCommand::prepare(args).await;
    let command = command.map_err(|error| Failure::system(format!("no watchdog: {error}")))?;
    let runner = Runner {
        args,
        redlock,
        servers,
        held,
        signals,
        waiting: Waiting::new(args.quiet),
        orders: command.orders().clone(),
        command: Mutex::new(command),
        tick: Cell::new(None),
        reader_above,
        is_granted: Cell::new(false),
        is_verbose: !args.quiet && (shared.verbose > 0 || stderr().is_terminal()),
    };
    let outcome = tokio::select! {
        biased;
        outcome = runner.perform_or_interrupt(task) => outcome,
        never = runner.end_with_stdin(), if args.end_with_stdin => match never {},
    };
    runner.end(&outcome).await;
    Ok(outcome.report(&shown(&args.command), args.conflict_exit_code, runner.is_verbose))
}

fn build(settings: &Settings, args: &RunArgs) -> Result<Redlock, Failure> {
    let ttl = settings.ttl();
    if ttl < MIN_TTL {
        return Err(Failure::config(format!(
            "the TTL is {ttl:?}, and run needs {MIN_TTL:?} at least, to stop the command in time"
        )));
    }
    let redlock = settings.build_with(|mut builder| {
        if !settings.sets("stop_margin") {
            builder = builder.stop_margin(ttl / 5);
        }
        if let Some(owner) = &args.owner {
            builder = builder.owner(owner);
        }
        builder
    })?;
    if args.max_hold.is_some_and(|max_hold| max_hold <= KILL_MARGIN) {
        let message = "--max-hold: the command is killed 100 ms before the lock ends";
        return Err(Failure::usage(message));
    }
    Ok(redlock)
}

impl Runner<'_> {
    async fn perform_or_interrupt(&self, task: Task<'_>) -> Outcome {
        let is_tick = matches!(task, Task::Tick(..));
        let mut performed = pin!(self.perform(task));
        let signal = tokio::select! {
            biased;
            // A signal that is forwarded ends the command, and by that this.
            outcome = &mut performed => return outcome,
            signal = self.signals.interrupted() => signal,
        };
        // A tick that is being claimed is given back, as nothing is started any more.
        if is_tick && let Ok(outcome) = timeout(GIVE_BACK_TIMEOUT, performed).await {
            return outcome;
        }
        Ended::Interrupted(signal).into()
    }

    /// Ends this process as SIGTERM does when the standard input ends, and the command if it does not end
    /// by that. Does not return.
    async fn end_with_stdin(&self) -> Infallible {
        // An error is an end as well.
        let _ = copy(&mut stdin(), &mut sink()).await;
        say("redlock: the standard input has ended: the command is stopped");
        let _ = kill_process(getpid(), Signal::TERM);
        sleep(self.args.kill_after.unwrap_or(STDIN_GRACE)).await;
        let _ = self.orders.send(&Order::Signal(Signal::KILL.as_raw()));
        std::future::pending().await
    }

    async fn perform(&self, task: Task<'_>) -> Outcome {
        let begun = Instant::now();
        if let Task::Tick(_, request) = &task {
            self.mean_tick(request);
        }
        let limit = self.limit(&task);
        if let Err(why) = self.ready(limit).await {
            return why.into();
        }
        let wait = match limit {
            Duration::MAX => Duration::MAX,
            limit => limit.saturating_sub(begun.elapsed()),
        };
        let max_hold = self.args.max_hold.unwrap_or(Duration::MAX);
        let options = LockOptions::new().wait(wait).wait_without_quorum(true).max_hold(max_hold);
        let performed = async {
            match task {
                Task::Lock(resource) => self.lock(&resource, options).await,
                Task::Shared(resource) => self.share(&resource, options).await,
                Task::Slot(resource, slots) => self.slot(&resource, &slots, options).await,
                Task::Once(key) => self.once(key, options).await,
                Task::Tick(job, request) => self.tick(job, request.options(options)).await,
            }
        };
        tokio::select! {
            biased;
            outcome = performed => outcome,
            why = self.wait_is_endless() => why.into(),
        }
    }

    /// Waits until the servers refuse votes for a reason that lasts, before the lock is granted: some reasons are
    /// known only once a vote was requested.
    async fn wait_is_endless(&self) -> NotReady {
        loop {
            sleep(CHECK_INTERVAL).await;
            if !self.is_granted.get()
                && let Err(why) = self.servers.readiness()
                && !why.heals
            {
                return why;
            }
        }
    }

    /// Returns the reason of a wait if it is that too few servers vote.
    pub(super) fn missing_servers(&self) -> Option<String> {
        self.servers.readiness().err().map(|why| format!("servers: {why}"))
    }

    /// Returns the limit for the wait for the lock; `Duration::MAX` means without a limit. A tick waits for its
    /// interval by default, so that ticks do not pile up after one that hangs.
    fn limit(&self, task: &Task<'_>) -> Duration {
        match task {
            Task::Tick(_, request) if self.args.has_default_wait() => {
                request.interval().unwrap_or(Duration::MAX)
            }
            _ => self.args.wait(),
        }
    }

    /// Waits until a quorum of servers votes. The limit is the limit of the wait for the lock.
    async fn ready(&self, limit: Duration) -> Result<(), NotReady> {
        let ready = async {
            match limit {
                Duration::MAX => self.servers.ready().await,
                wait => self.servers.ready_within(wait.max(CONNECT_TIMEOUT)).await,
            }
        };
        let reason = async || match self.missing_servers() {
            None => "records that are being copied to the servers".into(),
            Some(servers) => servers,
        };
        self.waiting.during(ready, reason).await
    }

    async fn lock(&self, resource: &Resource, options: LockOptions) -> Outcome {
        let names = resource.names().collect::<Vec<_>>().join(" ");
        let request = self.redlock.lock(resource.clone()).options(options);
        let run = request.run(|context| self.work(&names, context, Vec::new(), || false));
        let holder = async || {
            let holder = self.redlock.inspect(resource.clone()).await;
            let Ok(Some(holder)) = holder else {
                return self.missing_servers().unwrap_or_else(|| names.clone());
            };
            format!("{}, held by {}", holder.name, held_by(&holder))
        };
        self.waiting.during(run, holder).await.map_or_else(Outcome::from, Outcome::from)
    }

    async fn share(&self, resource: &Resource, options: LockOptions) -> Outcome {
        let name = resource.to_string();
        // An exclusive request that waits comes before this one, and after the process above.
        let options =
            if self.reader_above.is_some() { options.wait(Duration::ZERO) } else { options };
        let request = self.redlock.lock(resource.clone()).options(options.shared(true));
        let run = request.run(|context| self.work(&name, context, Vec::new(), || false));
        let holder = async || {
            let holder = self.redlock.inspect(resource.clone()).await;
            let Ok(Some(holder)) = holder else { return name.clone() };
            let next = if holder.is_shared() { ", and next by an exclusive request" } else { "" };
            format!("{name}, held by {}{next}", held_by(&holder))
        };
        match self.waiting.during(run, holder).await {
            Ok(ended) => ended.into(),
            Err(error) if is_behind_exclusive(&error) => {
                let above = self.reader_above.map(|pid| {
                    format!(
                        "; it waits for the redlock run above, process {pid}: try again later, or use \
                         --pass-through to run under the lock above"
                    )
                });
                let above = above.unwrap_or_default();
                let reason = format!("an exclusive request comes first: {error}{above}");
                Outcome::conflict(reason, None)
            }
            Err(error) => error.into(),
        }
    }

    async fn slot(&self, resource: &Resource, slots: &[Resource], options: LockOptions) -> Outcome {
        let name = resource.to_string();
        let count = u32::try_from(slots.len()).unwrap_or(u32::MAX);
        let request = self.redlock.lock(resource.clone()).options(options).slots(count);
        let run = request.run(|context| self.work(&name, context, Vec::new(), || false));
        let holders = async || {
            if let Some(servers) = self.missing_servers() {
                return servers;
            }
            let holders = slots.iter().map(|slot| self.redlock.inspect(slot.clone()));
            let holders = join_all(holders).await.into_iter().map(|holder| holder.ok().flatten());
            waiting_for_slot(&name, slots.len(), &holders.collect::<Vec<_>>())
        };
        self.waiting.during(run, holders).await.map_or_else(Outcome::from, Outcome::from)
    }

    async fn once(&self, key: &str, options: LockOptions) -> Outcome {
        let request = self.redlock.once(key).options(options).retain(self.args.retain);
        let done = request.run(|context| async {
            self.work(key, context, Vec::new(), || false).await.into_result()
        });
        let reason = async || {
            let other = || format!("another process, which does the work of {key}");
            self.missing_servers().unwrap_or_else(other)
        };
        match self.waiting.during(done, reason).await {
            Ok(Once::Ran(ended)) | Err(OnceError::Work(ended)) => ended.into(),
            Ok(Once::RanUnrecorded(ended, error)) => {
                self.record_stored_or_late().await;
                match self.redlock.counts().unrecorded {
                    0 => ended.into(),
                    _ => Outcome::Unrecorded(error),
                }
            }
            Ok(Once::AlreadyDone { by, at, .. }) => {
                Outcome::NothingToDo(format!("{by} has done it at {}", format_rfc3339_seconds(at)))
            }
            Ok(Once::InProgress { by, unknown, .. }) => {
                let what = if unknown { "began it, and may have done it" } else { "does it now" };
                Outcome::conflict(format!("{} {what}", client(by.as_deref())), None)
            }
            Err(OnceError::Lock(error)) => error.into(),
            Ok(_) | Err(_) => Outcome::Unknown,
        }
    }

    /// Waits until a record that is owed is stored, or its lock has ended.
    async fn record_stored_or_late(&self) {
        while !self.redlock.snapshot().owed.is_empty() && self.redlock.counts().unrecorded == 0 {
            sleep(OWED_POLL_INTERVAL).await;
        }
    }

    /// Runs the command under the lock of this context.
    pub(super) async fn work(
        &self,
        name: &str,
        context: LockContext,
        more: Vec<(&'static str, String)>,
        is_stopped: impl Fn() -> bool,
    ) -> Ended {
        self.is_granted.set(true);
        let own = [
            ("REDLOCK_NAME", name.to_owned()),
            ("REDLOCK_TOKEN", context.fencing_token().to_string()),
            ("REDLOCK_OWNER", self.redlock.owner().to_string()),
            (ancestors::VARIABLE, self.held.value(context.resource(), context.is_shared())),
        ];
        let slot = context.slot().map(|slot| (SLOT_VARIABLE, slot.to_string()));
        let shared = context.is_shared().then(|| (MODE_VARIABLE, "shared".to_owned()));
        let environment = more.into_iter().chain(own).chain(slot).chain(shared);
        let environment = environment.map(|(name, value)| (name.to_owned(), value)).collect();
        let mut command = self.command.lock().await;
        self.waiting.end();
        let work = Work { args: self.args, signals: &self.signals, is_stopped: &is_stopped };
        work.run(environment, &mut command, context).await
    }

    /// Ends what is left of the command, runs the hooks, and releases the lock.
    async fn end(&self, outcome: &Outcome) {
        self.waiting.end();
        // Another client may hold a lock that was lost: what is left must end all the sooner.
        self.signals.end_command();
        tokio::select! {
            biased;
            () = async { self.command.lock().await.kill_all().await } => {}
            _ = self.signals.hurried() => {}
        }
        self.notify_failure(outcome).await;
        // Also releases locks that were granted to a request that was dropped. A key on a server that does not
        // answer expires.
        let _ = timeout(RELEASE_TIMEOUT, self.redlock.shutdown()).await;
        if let (Some(cause), Some(on_lost)) = (outcome.loss(), &self.args.on_lost) {
            shell("--on-lost", on_lost, &[("REDLOCK_LOSS", cause)], &self.signals).await;
        }
    }
}

/// Returns the reason of a wait for a slot, with the holders of all slots.
fn waiting_for_slot(name: &str, count: usize, holders: &[Option<Holder>]) -> String {
    let held = (0..).zip(holders).filter_map(|(slot, holder): (u32, _)| {
        Some(format!("slot {slot} by {}", held_by(holder.as_ref()?)))
    });
    let held = held.collect::<Vec<_>>().join(", ");
    let waiting = format!("{name}, any of {count} slots");
    if held.is_empty() { waiting } else { format!("{waiting}, held: {held}") }
}

/// Returns whether a shared request was refused as an exclusive one waits.
fn is_behind_exclusive(error: &LockError) -> bool {
    matches!(error.root(), LockError::Held { readers: 1.., .. })
}

/// Returns the owner of a lock, and for how long it has held it; or the readers.
fn held_by(holder: &Holder) -> String {
    if holder.is_shared() {
        return owners(holder, "");
    }
    let since = holder.since.map(|since| format!(" for {}", short(age(since))));
    let owner = holder.owner.as_deref().unwrap_or("a foreign key");
    format!("{owner}{}", since.unwrap_or_default())
}

/// Returns the name of another client.
pub(super) fn client(owner: Option<&str>) -> &str {
    owner.unwrap_or("another client")
}
