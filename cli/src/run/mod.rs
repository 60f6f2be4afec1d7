//! `redlock run`: a command that runs only while a lock is held.

mod ancestors;
mod args;
mod clock;
mod command;
mod group;
mod hook;
mod messages;
mod outcome;
#[cfg(target_os = "linux")]
mod proc;
mod signals;
mod start;
mod waiting;
mod watchdog;
mod work;

use std::{
    cell::Cell,
    convert::Infallible,
    io,
    process::{self, ExitCode},
    time::{Duration, SystemTime},
};

use humantime::format_rfc3339_seconds;
use rustix::process::{Signal, getpid, kill_process};
use tokio::sync::Mutex;
use tower_redlock::{
    LockContext, LockError, LockOptions, Redlock, Resource, Schedule,
    once::{Once, OnceError},
    scheduler::{TickError, TickOutcome, TickRequest},
};

pub(crate) use self::args::RunArgs;
use self::{
    ancestors::Held,
    args::{Moment, Wait},
    command::WatchedCommand,
    messages::{Order, Sender},
    outcome::Outcome,
    signals::Signals,
    waiting::Waiting,
    work::{Ended, Work},
};
use crate::{
    args::SharedArgs,
    exit::Failure,
    output::{say, short},
    settings::Settings,
};

/// The command is killed that long before the end of the lock, at the latest.
const KILL_MARGIN: Duration = Duration::from_millis(100);
/// Minimum TTL: the command must have time to stop.
const MIN_TTL: Duration = Duration::from_secs(1);
/// Time for the first connections, where the lock is not waited for.
const CONNECT: Duration = Duration::from_millis(3500);
/// Default of `--retain`.
const RETAIN: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Limit for giving back a tick.
const GIVE_BACK: Duration = Duration::from_secs(2);
/// Limit for the last release.
const RELEASE: Duration = Duration::from_secs(2);

/// Does the part of a process that `run` starts from this program, if this is one.
pub(crate) fn helper() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    match args.next()?.to_str()? {
        start::ARGUMENT => Some(start::main(args)),
        watchdog::ARGUMENT => Some(watchdog::main(args)),
        _ => None,
    }
}

/// Returns this program, also where its file was replaced meanwhile.
fn this_program() -> io::Result<process::Command> {
    if cfg!(target_os = "linux") {
        use std::os::unix::process::CommandExt;

        let mut command = process::Command::new("/proc/self/exe");
        command.arg0("redlock");
        Ok(command)
    } else {
        std::env::current_exe().map(process::Command::new)
    }
}

/// Time for the command to end after the standard input has, by default.
const STDIN_GRACE: Duration = Duration::from_secs(10);

/// What `run` needs to start the command once the lock is held.
struct Runner<'a> {
    args: &'a RunArgs,
    owner: String,
    signals: Signals,
    waiting: Waiting,
    held: Held,
    orders: Sender,
    command: Mutex<WatchedCommand>,
    /// With `--tick`: the tick that the start is for, and the number of the attempt; zero before the command
    /// is started.
    tick: Cell<Option<(SystemTime, u32)>>,
}

pub(crate) async fn run(shared: &SharedArgs, args: &RunArgs) -> Result<ExitCode, Failure> {
    let settings = Settings::new(shared)?;
    let redlock = build(&settings, args)?;
    let system = |what: &str| {
        let what = what.to_owned();
        move |error: io::Error| Failure::system(format!("{what}: {error}"))
    };
    if args.max_hold.is_some_and(|max_hold| max_hold <= KILL_MARGIN) {
        return Err(Failure::usage(
            "--max-hold: the command is killed 100 ms before the lock ends",
        ));
    }
    let held = Held::new(&redlock, settings.prefix(), args.lock_names());
    if let Some((pid, name)) = held.above() {
        if args.pass_through {
            return Err(start::replace(&args.command));
        }
        return Err(Failure::usage(format!(
            "{} was not run: \"{name}\" is held by the redlock run above it, process {pid}, and each would \
             wait for the other: take one of the two away, or give the inner one --pass-through",
            command::shown(&args.command)
        )));
    }
    // Before anything is locked or claimed for it.
    if let Err(code) = start::check(&args.command) {
        return Ok(code);
    }
    let signals = Signals::start().map_err(system("signals"))?;
    let command = WatchedCommand::prepare(args).await.map_err(system("no watchdog"))?;
    let owner = redlock.owner().to_string();
    let waiting = Waiting::new(args.quiet);
    let orders = command.orders().clone();
    let command = Mutex::new(command);
    let tick = Cell::new(None);
    let runner = Runner { args, owner, signals, waiting, held, orders, command, tick };
    let outcome = tokio::select! {
        biased;
        outcome = runner.run_or_interrupt(&redlock) => outcome,
        never = runner.end_with_stdin(), if args.end_with_stdin => match never {},
    };
    runner.waiting.end();
    // A lock that was lost is another's by now: what is left must end all the sooner.
    let mut command = runner.command.lock().await;
    runner.signals.end_command();
    tokio::select! {
        biased;
        () = command.kill_all() => {}
        _ = runner.signals.hurried() => {}
    }
    drop(command);
    runner.notify_failure(&redlock, &outcome).await;
    // Locks that were granted to nobody are released as well. What does not reach a server ends by its TTL.
    let _ = tokio::time::timeout(RELEASE, redlock.shutdown()).await;
    Ok(outcome.report(args, shared.verbose > 0, &runner.signals).await)
}

fn build(settings: &Settings, args: &RunArgs) -> Result<Redlock, Failure> {
    let ttl = settings.ttl();
    if ttl < MIN_TTL {
        return Err(Failure::config(format!(
            "the TTL is {ttl:?}, and run needs {MIN_TTL:?} at least, to stop the command in time"
        )));
    }
    let mut builder = settings.builder()?;
    if !settings.sets("stop_margin") {
        builder = builder.stop_margin(ttl / 5);
    }
    if let Some(owner) = &args.owner {
        builder = builder.owner(owner);
    }
    Ok(builder.build()?)
}

impl Runner<'_> {
    /// Reports a failed or missed tick by `--notify-failure`.
    async fn notify_failure(&self, redlock: &Redlock, outcome: &Outcome) {
        let RunArgs { tick: Some(job), notify_failure: Some(command), .. } = self.args else {
            return;
        };
        let meant = self.tick.get();
        let Some(failure) = outcome.tick_failure(meant.map_or(0, |(_, attempt)| attempt)) else {
            return;
        };
        let tick =
            meant.map_or_else(String::new, |(tick, _)| format_rfc3339_seconds(tick).to_string());
        failure.notify(redlock, command, (job, &tick), &self.signals).await;
    }

    /// Ends this process as SIGTERM does when the standard input ends, and the command if it does not end
    /// by that. Does not return.
    async fn end_with_stdin(&self) -> Infallible {
        let (ended, end) = tokio::sync::oneshot::channel();
        // A thread, as a read from a file or a device can't be awaited; it ends with this process.
        std::thread::spawn(move || {
            // What arrives is for nobody; an error is an end as well.
            let _ = io::copy(&mut io::stdin(), &mut io::sink());
            let _ = ended.send(());
        });
        let _ = end.await;
        say("redlock: the standard input has ended: the command is stopped");
        let _ = kill_process(getpid(), Signal::TERM);
        tokio::time::sleep(self.args.kill_after.unwrap_or(STDIN_GRACE)).await;
        let _ = self.orders.send(&Order::Signal(Signal::KILL.as_raw()));
        std::future::pending().await
    }

    async fn run_or_interrupt(&self, redlock: &Redlock) -> Outcome {
        let mut run = std::pin::pin!(self.run(redlock));
        let signal = tokio::select! {
            biased;
            // A signal that is forwarded ends the command, and by that this.
            outcome = &mut run => return outcome,
            signal = self.signals.interrupted() => signal,
        };
        // A tick that is being claimed is given back, as nothing is started any more.
        if self.args.tick.is_some()
            && let Ok(outcome) = tokio::time::timeout(GIVE_BACK, run).await
        {
            return outcome;
        }
        Outcome::Interrupted(signal)
    }

    async fn run(&self, redlock: &Redlock) -> Outcome {
        let begun = tokio::time::Instant::now();
        if let Some(job) = &self.args.tick {
            match self.tick_request(redlock, job) {
                Ok(request) => self.tick.set(request.tick().map(|tick| (tick, 0))),
                Err(outcome) => return outcome,
            }
        }
        if let Err(outcome) = self.ready(redlock).await {
            return outcome;
        }
        let wait = match self.args.wait() {
            Wait::No => Duration::ZERO,
            Wait::AtMost(wait) => wait.saturating_sub(begun.elapsed()),
            Wait::Unlimited => Duration::MAX,
        };
        let max_hold = self.args.max_hold.unwrap_or(Duration::MAX);
        let options = LockOptions::new().wait(wait).max_hold(max_hold);
        if let Some(key) = &self.args.once {
            return self.once(redlock, key, options).await;
        }
        if let Some(job) = &self.args.tick {
            return self.tick(redlock, job, options).await;
        }
        let resource = match &self.args.leader {
            Some(name) => Resource::of_leader(name),
            None => Resource::new(self.args.names.iter().map(String::as_str)),
        };
        let resource = match resource {
            Ok(resource) => resource,
            Err(error) => return LockError::from(error).into(),
        };
        let names = resource.names().collect::<Vec<_>>().join(" ");
        let held_by = async || holder(redlock, &resource).await;
        let request = redlock.lock(resource.clone()).options(options);
        let run = request.run(|context| self.work(&names, context, Vec::new(), || false));
        match self.waiting.during(run, held_by).await {
            Ok(ended) => ended.into(),
            Err(error) => error.into(),
        }
    }

    /// Waits until a quorum of servers votes. The limit is that of the wait for the lock.
    async fn ready(&self, redlock: &Redlock) -> Result<(), Outcome> {
        let ready = async {
            match self.args.wait() {
                Wait::No => redlock.ready_within(CONNECT).await,
                Wait::AtMost(wait) => redlock.ready_within(wait.max(CONNECT)).await,
                Wait::Unlimited => redlock.ready().await,
            }
        };
        let why = async || match redlock.readiness() {
            Ok(()) => "records that are being copied to the servers".into(),
            Err(why) => format!("servers: {why}"),
        };
        let ready = self.waiting.during(ready, why).await;
        ready.map_err(|why| Outcome::NotReady(Box::new(why)))
    }

    async fn once(&self, redlock: &Redlock, key: &str, options: LockOptions) -> Outcome {
        let retain = self.args.retain.unwrap_or(RETAIN);
        let request = redlock.once(key).options(options).retain(retain);
        let done = request.run(|context| async {
            self.work(key, context, Vec::new(), || false).await.into_result()
        });
        let why = async || format!("another process, which does the work of {key}");
        match self.waiting.during(done, why).await {
            Ok(Once::Ran(ended)) | Err(OnceError::Work(ended)) => ended.into(),
            Ok(Once::RanUnrecorded(_, error)) => Outcome::Unrecorded(error),
            Ok(Once::AlreadyDone { by, at, .. }) => Outcome::AlreadyDone { by, at },
            Ok(Once::InProgress { by, unknown, .. }) => {
                Outcome::InProgress { by, is_unknown: unknown }
            }
            Err(OnceError::Lock(error)) => error.into(),
            Ok(_) | Err(_) => Outcome::Unknown,
        }
    }

    fn tick_request(&self, redlock: &Redlock, job: &str) -> Result<TickRequest, Outcome> {
        let expression = self.args.cron.as_deref().unwrap_or_default();
        let zone = self.args.tz.as_deref().unwrap_or("UTC");
        let schedule = Schedule::cron(expression)
            .and_then(|cron| cron.in_tz(zone))
            .map_err(|error| Outcome::Usage(error.to_string()))?;
        let mut request = redlock.job_tick(job, schedule).attempts(self.args.attempts);
        if let Some(Moment(Some(at))) = self.args.at {
            request = request.at(at);
        }
        if let Some(early) = self.args.early {
            request = request.early(early);
        }
        // This program kills its command itself.
        Ok(request.stop_grace(Duration::MAX))
    }

    async fn tick(&self, redlock: &Redlock, job: &str, options: LockOptions) -> Outcome {
        let request = match self.tick_request(redlock, job) {
            Ok(request) => request,
            Err(outcome) => return outcome,
        };
        let done = request.options(options).run(|context| async move {
            self.tick.set(Some((context.tick(), context.attempt())));
            let more = vec![
                ("REDLOCK_TICK", format_rfc3339_seconds(context.tick()).to_string()),
                ("REDLOCK_ATTEMPT", context.attempt().to_string()),
            ];
            let is_stopped = || context.stop_request().is_some();
            let ended = self.work(job, (*context).clone(), more, is_stopped).await;
            if matches!(&ended, Ended::Interrupted(_) | Ended::NotStarted(_)) {
                context.give_back();
            }
            ended.into_result()
        });
        let why = async || format!("another host, which runs a tick of {job}");
        match self.waiting.during(done, why).await {
            Ok(TickOutcome::Ran(ended)) | Err(TickError::Work(ended)) => ended.into(),
            Ok(TickOutcome::RanUnrecorded(_, error)) => Outcome::Unrecorded(error),
            Ok(TickOutcome::AlreadyDone { by, .. }) => Outcome::TickDone { by },
            Ok(TickOutcome::Superseded { tick, by, .. }) => Outcome::TickSuperseded { tick, by },
            Ok(TickOutcome::GivenUp { by, attempts, .. }) => Outcome::GivenUp { by, attempts },
            Ok(TickOutcome::Paused(pause)) => Outcome::Paused(pause),
            Ok(TickOutcome::Unknown) => Outcome::TickUnknown,
            Err(TickError::Stopped(stop)) => Outcome::StoppedBy(stop),
            Err(TickError::Lock(error)) => error.into(),
            Err(error) => Outcome::Usage(error.to_string()),
            Ok(_) => Outcome::Unknown,
        }
    }

    async fn work(
        &self,
        name: &str,
        context: LockContext,
        more: Vec<(&'static str, String)>,
        is_stopped: impl Fn() -> bool,
    ) -> Ended {
        let own = [
            ("REDLOCK_NAME", name.to_owned()),
            ("REDLOCK_TOKEN", context.fencing_token().to_string()),
            ("REDLOCK_OWNER", self.owner.clone()),
            (ancestors::VARIABLE, self.held.value()),
        ];
        let environment = more.into_iter().chain(own);
        let environment = environment.map(|(name, value)| (name.to_owned(), value)).collect();
        let mut command = self.command.lock().await;
        self.waiting.end();
        let settings = Work { args: self.args, signals: &self.signals, is_stopped: &is_stopped };
        settings.run(environment, &mut command, context).await
    }
}

/// Says who holds one of these names.
async fn holder(redlock: &Redlock, resource: &Resource) -> String {
    let names = resource.names().collect::<Vec<_>>().join(" ");
    let Ok(Some(holder)) = redlock.inspect(resource.clone()).await else { return names };
    let since = holder.since.and_then(|since| since.elapsed().ok());
    let since = since.map_or_else(String::new, |since| format!(" for {}", short(since)));
    let owner = holder.owner.as_deref().unwrap_or("a foreign key");
    format!("{}, held by {owner}{since}", holder.name)
}
