//! Command-line options of the faults.

use std::thread;
use std::time::Duration;

use tower_redlock_verify::program::{Args, fresh_seed};

use crate::cell::{Cell, Client, Phase};
use crate::fault::{FAULTS, Fault, Kind};

pub(crate) const USAGE: &str = "\
usage: scripts/faults [options]
  --fault F[,F…]   these faults only (all)
  --without F[,F…] all faults except these
  --phase P[,P…]   before, acquire, held, renewing, releasing, after (all)
  --client C[,C…]  redlock, and the controls: unguarded, plain (these three); redlock with readers and
                   writers: shared; with slots: slots
  --jobs N         cells at the same time (twice the number of processors)
  --markdown       the table for verify/faults/results.md on the standard output
  --list           the faults, and what is promised under each
usage: scripts/faults --random [options]
  --seconds N      time of the faults (60)
  --seed S         the same faults as in the run that showed this seed
  --control        the control plain, in which overlaps must be found, instead of redlock
  --fault, --without, --client as above";

#[derive(Clone, Debug)]
pub(crate) struct Options {
    faults: Vec<&'static Fault>,
    phases: Vec<Phase>,
    clients: Vec<Client>,
    pub(crate) jobs: usize,
    pub(crate) markdown: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct RandomOptions {
    pub(crate) faults: Vec<&'static Fault>,
    pub(crate) clients: Vec<Client>,
    pub(crate) time: Duration,
    pub(crate) seed: u64,
}

#[derive(Debug)]
pub(crate) enum Request {
    Matrix(Options),
    Random(RandomOptions),
    List,
}

/// `None` if help was requested.
pub(crate) fn parse(mut args: Args) -> Result<Option<Request>, String> {
    let mut options = Options {
        faults: FAULTS.iter().collect(),
        phases: Phase::ALL.to_vec(),
        clients: Client::USUAL.to_vec(),
        jobs: 2 * thread::available_parallelism().map_or(2, usize::from),
        markdown: false,
    };
    let mut random = RandomOptions {
        faults: Vec::new(),
        clients: vec![Client::Redlock],
        time: Duration::from_secs(60),
        seed: fresh_seed(),
    };
    let mut is_random = false;
    while let Some(option) = args.option() {
        match option.as_str() {
            "--fault" => options.faults = each(&args.value(&option)?, &FAULTS, |fault| fault.name)?,
            "--without" => {
                let without = each(&args.value(&option)?, &FAULTS, |fault| fault.name)?;
                options.faults.retain(|fault| !without.contains(fault));
            }
            "--phase" => {
                let phases = each(&args.value(&option)?, &Phase::ALL, |phase| phase.name())?;
                options.phases = phases.into_iter().copied().collect();
            }
            "--client" => {
                let clients = each(&args.value(&option)?, &Client::ALL, |client| client.name())?;
                options.clients = clients.into_iter().copied().collect();
                random.clients.clone_from(&options.clients);
            }
            "--jobs" => options.jobs = args.count(&option)?,
            "--markdown" => options.markdown = true,
            "--random" => is_random = true,
            "--seconds" => random.time = Duration::from_secs(args.count(&option)?),
            "--seed" => random.seed = args.number(&option)?,
            "--control" => random.clients = vec![Client::Plain],
            "--list" => return Ok(Some(Request::List)),
            "--help" | "-h" => return Ok(None),
            other => return Err(format!("unknown argument: {other}")),
        }
    }
    if !is_random {
        return Ok(Some(Request::Matrix(options)));
    }
    random.faults = options.faults.into_iter().filter(|fault| fault.is_repeatable()).collect();
    if random.faults.is_empty() {
        return Err("none of these faults can be repeated at random".into());
    }
    Ok(Some(Request::Random(random)))
}

impl Options {
    /// Returns the cells of this crate, followed by the cells of the controls.
    pub(crate) fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for &client in &self.clients {
            for &fault in &self.faults {
                cells.extend(self.phases.iter().map(|&phase| Cell { fault, phase, client }));
            }
        }
        cells.retain(|cell| match cell.client {
            Client::Redlock => true,
            Client::Unguarded => cell.must_overlap(),
            // The control's driver is built without TLS, and a request that is encrypted is known by its
            // length only.
            Client::Plain | Client::Shared | Client::Slots => {
                cell.fault.kind != Kind::CertificateExpired
            }
        });
        cells
    }
}

fn each<T>(
    list: &str,
    all: &'static [T],
    name: impl Fn(&T) -> &'static str,
) -> Result<Vec<&'static T>, String> {
    let find = |wanted: &str| {
        let found = all.iter().find(|one| name(one) == wanted);
        let names = || all.iter().map(&name).collect::<Vec<_>>().join(", ");
        found.ok_or_else(|| format!("unknown: {wanted}; there are: {}", names()))
    };
    list.split(',').map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::UNGUARDED_CELLS;

    fn cells(args: &str) -> Result<Vec<String>, String> {
        match parse(Args::of(args))? {
            Some(Request::Matrix(options)) => {
                Ok(options.cells().iter().map(Cell::to_string).collect())
            }
            other => Err(format!("{other:?}")),
        }
    }

    fn random(args: &str) -> RandomOptions {
        match parse(Args::of(args)) {
            Ok(Some(Request::Random(options))) => options,
            other => panic!("{args}: {other:?}"),
        }
    }

    #[test]
    fn matrix_has_144_cells() {
        assert_eq!(cells("--client redlock").map(|cells| cells.len()), Ok(144));
        assert_eq!(cells("--client plain").map(|cells| cells.len()), Ok(138));
        assert_eq!(cells("--client shared,slots").map(|cells| cells.len()), Ok(276));
        assert_eq!(cells("--client unguarded").map(|cells| cells.len()), Ok(UNGUARDED_CELLS));
        assert_eq!(cells("").map(|cells| cells.len()), Ok(288));
    }

    #[test]
    fn lists_choose_cells() {
        let chosen = cells("--fault stop,flushall --phase held --client redlock");
        assert_eq!(
            chosen,
            Ok(vec!["stop held (redlock)".into(), "flushall held (redlock)".into()])
        );
    }

    #[test]
    fn nonsense_is_refused() {
        for args in ["--fault rain", "--phase late", "--client x", "--jobs 0", "--jobs", "x"] {
            assert!(cells(args).is_err(), "{args}");
        }
    }

    #[test]
    fn random_run_repeats_only_some_faults() {
        let options = random("--random --seconds 7 --seed 3 --without stop");
        let names: Vec<_> = options.faults.iter().map(|fault| fault.name).collect();
        assert!(names.contains(&"flushall"), "{names:?}");
        assert!(!names.contains(&"stop") && !names.contains(&"promotion"), "{names:?}");
        assert_eq!((options.time, options.seed), (Duration::from_secs(7), 3));
        assert_eq!(options.clients, [Client::Redlock]);
        assert_eq!(random("--random --control").clients, [Client::Plain]);
        assert!(parse(Args::of("--random --fault promotion")).is_err());
    }
}
