//! The command line.

use std::time::Duration;

use humantime_serde::re::humantime::parse_duration;

pub(crate) const USAGE: &str = "\
Examines the servers of a lock set: which of them vote, why the others don't, what to do about
it, and which locks are held.

usage: doctor [--json] [SETTINGS] [TASK]

tasks; without one, doctor examines the set:
  --wait[=all|quorum]   keep running until all nodes (or a quorum) vote: that ends probations,
                        for which some client has to run; then examine
  --wait NODE           keep running until NODE votes again, as all clients see it: between the
                        restarts of two servers, when the restart of the first has been done
  --resource NAME       show the holder of NAME, node by node
  --break NAME          the same, then take the lock away from that holder, after a confirmation;
                        only for holders that are known to be dead
  --adopt               move servers to this configuration after a change of nodes, names, prefix
                        or guards, after a confirmation; --from, or another --from-…, says from
                        where. No locks for one max_ttl; waits until a quorum votes again
  --lower-max-ttl       lower the max_ttl that the servers keep to the one of the settings, when no
                        client asks for more; waits until locks with a longer TTL have expired
  --check               try everything over throw-away servers, or over embedded nodes, under the
                        prefix doctor-check
  --help                print this

settings; they must be those of the programs that use the locks, as servers vote only for clients
with the same nodes, names, prefix and guards:
  --config FILE         a TOML file as `Redlock::from_config` reads it
  --prefix PREFIX       key_prefix                         (default: redlock)
  --ttl TIME            ttl, like 10s or 250ms             (default: 10s)
  --max-ttl TIME        max_ttl: the longest TTL that any client uses; a probation lasts that
                        long, so never give less but to lower it     (default: the TTL)
  --clock-guard TIME    clock_guard                        (default: none)
  --restart-guard WHAT  restart_guard: probation or off   (default: probation)

further options:
  --json                print JSON
  --timeout TIME        how long --wait and --adopt wait   (default: 60s, more where a probation
                        takes longer)
  --no-probe            do not ask each node for its vote on a new name
  --yes                 confirm; required without a terminal
  --from URLS           for --adopt: the nodes of the old set, as in REDLOCK_NODES
  --from-prefix PREFIX, --from-clock-guard TIME|none
                        for --adopt: where the old set was configured otherwise

environment:
  REDLOCK_NODES         independent servers, [NAME=]redis://host:port, separated by commas;
                        used where --config names no nodes. Without any, five nodes inside this
                        process are examined, which proves little

A server without any data of the set is enrolled by this, as by any client: give the right settings.

exit code: 0  healthy; the question was answered, the task is done
           1  degraded: locks work, but something needs attention: after --wait NODE, another
              server must not be restarted; --lower-max-ttl did not reach all nodes; a check
              of --check failed
           2  no quorum: no locks at present, or too few nodes answered
           3  bad usage, an error of doctor's own, or not confirmed
";

/// For a guard that the old set did not have.
pub(crate) const NONE: &str = "none";

pub(crate) enum Command {
    Run(Box<Args>),
    Help,
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Task {
    Examine,
    Wait(Until),
    WaitFor(String),
    Resource(String),
    Break(String),
    Adopt,
    LowerMaxTtl,
    Check,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    All,
    Quorum,
    /// A quorum votes, and no other node is in probation.
    Moved,
}

/// Settings of the command line; they override those of the file.
#[derive(Clone, Default)]
pub(crate) struct Overrides {
    pub(crate) config: Option<String>,
    pub(crate) prefix: Option<String>,
    pub(crate) ttl: Option<String>,
    pub(crate) max_ttl: Option<String>,
    pub(crate) clock_guard: Option<String>,
    pub(crate) restart_guard: Option<String>,
}

/// How the old set differs from the new one.
#[derive(Clone, Default)]
pub(crate) struct From {
    pub(crate) nodes: Option<String>,
    pub(crate) prefix: Option<String>,
    pub(crate) clock_guard: Option<String>,
}

impl From {
    fn is_empty(&self) -> bool {
        self.nodes.is_none() && self.prefix.is_none() && self.clock_guard.is_none()
    }
}

pub(crate) struct Args {
    pub(crate) task: Task,
    pub(crate) settings: Overrides,
    pub(crate) from: From,
    pub(crate) json: bool,
    pub(crate) yes: bool,
    pub(crate) probe: bool,
    pub(crate) timeout: Option<Duration>,
}

pub(crate) fn parse(args: impl IntoIterator<Item = String>) -> Result<Command, String> {
    let mut parsed = Args {
        task: Task::Examine,
        settings: Overrides::default(),
        from: From::default(),
        json: false,
        yes: false,
        probe: true,
        timeout: None,
    };
    let mut args = args.into_iter().peekable();
    while let Some(arg) = args.next() {
        // `--ttl=10s` and `--ttl 10s` are the same.
        let (name, inline) = match arg.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (arg.as_str(), None),
        };
        let is_flag = inline.is_none();
        let mut value = || {
            inline.clone().or_else(|| args.next()).ok_or_else(|| format!("{name} needs a value"))
        };
        let Args { task, settings, from, .. } = &mut parsed;
        match name {
            "--help" | "-h" if is_flag => return Ok(Command::Help),
            "--json" if is_flag => parsed.json = true,
            "--yes" if is_flag => parsed.yes = true,
            "--no-probe" if is_flag => parsed.probe = false,
            "--check" if is_flag => choose(task, Task::Check)?,
            "--adopt" if is_flag => choose(task, Task::Adopt)?,
            "--wait" => {
                let what = inline.or_else(|| args.next_if(|next| !next.starts_with('-')));
                choose(task, wait(what.as_deref()))?;
            }
            "--lower-max-ttl" if is_flag => choose(task, Task::LowerMaxTtl)?,
            "--resource" => choose(task, Task::Resource(value()?))?,
            "--break" => choose(task, Task::Break(value()?))?,
            "--timeout" => parsed.timeout = Some(duration(name, &value()?)?),
            "--config" => settings.config = Some(value()?),
            "--prefix" => settings.prefix = Some(value()?),
            "--ttl" => settings.ttl = Some(time(name, value()?)?),
            "--max-ttl" => settings.max_ttl = Some(time(name, value()?)?),
            "--clock-guard" => settings.clock_guard = Some(time(name, value()?)?),
            "--restart-guard" => settings.restart_guard = Some(restart_guard(value()?)?),
            "--from" => from.nodes = Some(value()?),
            "--from-prefix" => from.prefix = Some(value()?),
            "--from-clock-guard" => {
                let value = value()?;
                from.clock_guard = Some(if value == NONE { value } else { time(name, value)? });
            }
            _ => return Err(format!("unknown argument {}", shown(name))),
        }
    }
    check(&parsed)?;
    Ok(Command::Run(Box::new(parsed)))
}

fn choose(task: &mut Task, new: Task) -> Result<(), String> {
    if *task != Task::Examine {
        return Err(
            "one task at a time: --wait, --resource, --break, --adopt, --lower-max-ttl or --check"
                .into(),
        );
    }
    *task = new;
    Ok(())
}

fn check(args: &Args) -> Result<(), String> {
    let waits = matches!(args.task, Task::Wait(_) | Task::WaitFor(_) | Task::Adopt);
    let asks = matches!(args.task, Task::Break(_) | Task::Adopt);
    if args.task == Task::Adopt && args.from.is_empty() {
        return Err("--adopt needs --from URLS: the nodes of the old set".into());
    }
    if args.task != Task::Adopt && !args.from.is_empty() {
        return Err("--from, --from-prefix and --from-clock-guard belong to --adopt".into());
    }
    if args.timeout.is_some() && !waits {
        return Err("--timeout belongs to --wait and --adopt".into());
    }
    if args.yes && !asks {
        return Err("--yes belongs to --break and --adopt".into());
    }
    Ok(())
}

fn wait(what: Option<&str>) -> Task {
    match what {
        None | Some("all") => Task::Wait(Until::All),
        Some("quorum") => Task::Wait(Until::Quorum),
        Some(node) => Task::WaitFor(node.to_owned()),
    }
}

fn duration(name: &str, value: &str) -> Result<Duration, String> {
    parse_duration(value).map_err(|_| format!("{name}: {} is no time like 10s", shown(value)))
}

/// Returns the text if it is a time.
fn time(name: &str, value: String) -> Result<String, String> {
    duration(name, &value).map(|_| value)
}

fn restart_guard(value: String) -> Result<String, String> {
    match value.as_str() {
        "probation" | "off" => Ok(value),
        _ => Err("--restart-guard: probation or off".into()),
    }
}

/// Returns the argument, unless it may contain a password.
fn shown(text: &str) -> &str {
    if text.contains(['@', ':']) { "(a URL? nodes go into REDLOCK_NODES)" } else { text }
}
