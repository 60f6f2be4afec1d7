//! Many locks of one process, many names that several processes contend for, many managers.

use std::time::{Duration, Instant};

use crate::{
    child::{self, Locks, Part, run_all},
    contestants::Kind,
    keeper::{Fact, Keeper, Orders},
    options::Options,
    report::format::{significant, time},
    samples::emit,
    servers::Servers,
    stopwatch::Stopwatch,
};

/// TTL of the held locks: 100,000 of them need 10,000 renewals a second.
const TTL: Duration = Duration::from_secs(30);
/// TTL in a run that only shows that everything works.
const QUICK_TTL: Duration = Duration::from_secs(3);
const QUICK: Duration = Duration::from_secs(1);
/// Time for which idle managers are measured.
const IDLE: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crowd {
    /// This number of locks of one manager.
    Locks(u32),
    /// This number of managers of one process, with one lock each.
    Managers(u32),
}

impl Crowd {
    /// The cases that are compared with each other.
    pub(crate) const FULL: [Self; 3] =
        [Self::Locks(1_000), Self::Locks(10_000), Self::Locks(100_000)];
    const QUICK: [Self; 3] = [Self::Locks(100), Self::Locks(1_000), Self::Managers(20)];
    /// The numbers of managers that show how the servers' load grows with the processes.
    pub(crate) const GROWING: [Self; 3] =
        [Self::Managers(50), Self::Managers(200), Self::Managers(1_000)];
    pub(crate) const ALL: [Self; 8] = [
        Self::Locks(100),
        Self::Locks(1_000),
        Self::Locks(10_000),
        Self::Locks(100_000),
        Self::Managers(20),
        Self::Managers(50),
        Self::Managers(200),
        Self::Managers(1_000),
    ];

    pub(crate) fn case(self) -> String {
        match self {
            Self::Locks(count) => format!("{} locks of one manager", thousands(count)),
            Self::Managers(count) => format!("{count} managers with a lock each"),
        }
    }

    pub(crate) fn locks(self) -> u32 {
        match self {
            Self::Locks(count) | Self::Managers(count) => count,
        }
    }

    fn managers(self) -> u32 {
        match self {
            Self::Locks(_) => 1,
            Self::Managers(count) => count,
        }
    }
}

/// The reported quantities, by the names that the report uses. Times are in seconds.
pub(crate) const TTL_OF_ALL: &str = "TTL";
pub(crate) const CONNECTED: &str = "time until all managers may acquire";
pub(crate) const MEMORY_OF_MANAGER: &str = "bytes of a manager";
pub(crate) const ACQUIRED: &str = "time until all are held";
pub(crate) const MEMORY: &str = "bytes of a lock";
pub(crate) const SERVER_MEMORY: &str = "bytes of a lock on each server";
/// In processor seconds per second and lock.
pub(crate) const CLIENT: &str = "client's processor time for a lock";
/// Like [`CLIENT`], of all servers together.
pub(crate) const SERVERS: &str = "servers' processor time for a lock";
pub(crate) const THREADS: &str = "threads";
pub(crate) const LOST: &str = "locks lost";
/// In processor seconds per second and manager without locks.
pub(crate) const IDLE_CLIENT: &str = "client's processor time for an idle manager";
/// Like [`IDLE_CLIENT`], of all servers together.
pub(crate) const IDLE_SERVERS: &str = "servers' processor time for an idle manager";
/// Commands that a server runs in a second for a manager without locks, with the commands of scripts.
pub(crate) const IDLE_COMMANDS: &str = "commands of a server for an idle manager";
/// Memory of a server for a manager without locks: its connection, above all.
pub(crate) const IDLE_MEMORY: &str = "bytes of an idle manager on each server";
/// Least remaining validity as a fraction of the TTL.
pub(crate) const LEAST_REMAINING: &str = "least remaining validity";
pub(crate) const RELEASED: &str = "time until all are released";

/// Names that several processes contend for, with a task for each name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    names: u32,
}

impl Wanted {
    pub(crate) const ALL: [Self; 2] = [Self { names: 50 }, Self { names: 1_000 }];
    const PROCESSES: u32 = 4;
    const HOLD: Duration = Duration::from_millis(500);

    pub(crate) fn case(self) -> String {
        format!(
            "{} names, each wanted by {} processes and held for {} ms",
            thousands(self.names),
            Self::PROCESSES,
            Self::HOLD.as_millis()
        )
    }
}

/// Mean fraction of the time in which a name is held.
pub(crate) const HELD: &str = "share of the time held";

/// Number of acquires that the servers ran for each grant and server: 1 if none is refused.
pub(crate) const ACQUIRES: &str = "acquires for a grant";
/// Number of scripts of all kinds that the servers ran for each grant and server.
pub(crate) const SCRIPTS: &str = "scripts for a grant";

pub(crate) fn measure(servers: &Servers, options: &Options) {
    let is_quick = options.time < QUICK;
    let (ttl, wanted) = if is_quick { (QUICK_TTL, Wanted::ALL[0]) } else { (TTL, Wanted::ALL[1]) };
    let crowds = if is_quick {
        Crowd::QUICK.to_vec()
    } else {
        Crowd::FULL.into_iter().chain(Crowd::GROWING).collect()
    };
    // Measured once if all scenarios are run.
    let rounds = if options.is_named("many") { options.rounds } else { 1 };
    for _ in 0..rounds {
        for &crowd in &crowds {
            measure_crowd(servers, crowd, ttl);
        }
        // Longer than a queue of all processes takes.
        let time = if is_quick { QUICK * 3 } else { 5 * options.time };
        measure_wanted(servers, wanted, time);
    }
}

fn measure_crowd(servers: &Servers, crowd: Crowd, ttl: Duration) {
    let case = crowd.case();
    let emit = |what, value| emit(&case, Kind::Ours.name(), what, value);
    let [locks, managers] = [crowd.locks(), crowd.managers()].map(f64::from);
    emit(TTL_OF_ALL, ttl.as_secs_f64());
    // The window has one renewal of each lock.
    let window = ttl / 3;
    let orders = Orders {
        managers: crowd.managers() as usize,
        locks: crowd.locks() as usize,
        ttl,
        time: window,
        idle: if crowd.managers() > 1 { IDLE } else { Duration::ZERO },
    };
    let (before, mut commands) = (servers.memory(), 0.0);
    let mut keeper = Keeper::start(orders, &servers.urls());
    let (mut begun, mut memory) = (None, 0.0);
    while let Some((fact, value)) = keeper.next() {
        match fact {
            Fact::Connected => emit(CONNECTED, value),
            Fact::ConnectedMemory => {
                memory = servers.memory();
                emit(MEMORY_OF_MANAGER, value / managers);
                emit(IDLE_MEMORY, (memory - before) / servers.count() / managers);
            }
            Fact::IdleBegins => {
                commands = servers.commands();
                begun = Some((Stopwatch::start(servers), Instant::now()));
            }
            Fact::IdleEnds => {
                let (stopwatch, begun) = begun.take().expect("it began");
                let manager_seconds = begun.elapsed().as_secs_f64() * managers;
                emit(IDLE_CLIENT, value / manager_seconds);
                let all = stopwatch.stop(servers).servers.unwrap_or(f64::NAN) / manager_seconds;
                emit(IDLE_SERVERS, all);
                let commands = (servers.commands() - commands) / servers.count() / manager_seconds;
                emit(IDLE_COMMANDS, commands);
                eprintln!(
                    "  {case}, idle: servers {} a manager, {} commands",
                    time(all),
                    significant(commands)
                );
            }
            Fact::Acquired => emit(ACQUIRED, value),
            Fact::Memory => emit(MEMORY, value / locks),
            Fact::Begins => {
                emit(THREADS, value);
                begun = Some((Stopwatch::start(servers), Instant::now()));
            }
            Fact::Ends => {
                let (stopwatch, begun) = begun.expect("it began");
                let lock_seconds = begun.elapsed().as_secs_f64() * locks;
                let used = stopwatch.stop(servers);
                emit(CLIENT, value / lock_seconds);
                if let Some(used) = used.servers {
                    emit(SERVERS, used / lock_seconds);
                }
                let each = (servers.memory() - memory) / servers.count() / locks;
                emit(SERVER_MEMORY, each);
                let [client, all] = [value, used.servers.unwrap_or(f64::NAN)]
                    .map(|used| significant(used / begun.elapsed().as_secs_f64()));
                eprintln!("  {case}: {client} of a core, servers {all}");
            }
            Fact::Lost => {
                emit(LOST, value);
                eprintln!("    {value} lost");
            }
            Fact::LeastRemaining => emit(LEAST_REMAINING, value / ttl.as_secs_f64()),
            Fact::Released => {
                emit(RELEASED, value);
                eprintln!("    released in {}", time(value));
            }
        }
    }
    servers.settle();
}

fn measure_wanted(servers: &Servers, wanted: Wanted, time: Duration) {
    let case = wanted.case();
    let names = wanted.names as usize;
    let part = Part {
        kind: Kind::Ours,
        tasks: names,
        locks: Locks::Names(names),
        hold: Wanted::HOLD,
        time,
    };
    // An acquire of one name reads its fence with ZSCORE, in the script that contended names need.
    let commands = ["zscore", "evalsha"].map(|command| (command, servers.calls(command)));
    let turns = run_all(servers, part, Wanted::PROCESSES as usize);
    for (command, before) in commands {
        let each = (servers.calls(command) - before) / child::count(&turns) / servers.count();
        let what = if command == "zscore" { ACQUIRES } else { SCRIPTS };
        emit(&case, Kind::Ours.name(), what, each);
        eprintln!("    {} {what}", significant(each));
    }
    child::waits(&turns, time).emit(&case, Kind::Ours.name());
    let share = child::held_at_a_time(&turns, time) / f64::from(wanted.names);
    eprintln!("    held {} of the time", significant(share));
    emit(&case, Kind::Ours.name(), HELD, share);
}

/// Formats a number as `100,000`.
fn thousands(number: u32) -> String {
    if number < 1_000 {
        number.to_string()
    } else {
        format!("{},{:03}", number / 1_000, number % 1_000)
    }
}
