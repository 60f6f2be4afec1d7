//! Command-line options of the fault matrix.

use std::thread;

use crate::cell::{Cell, Client, Phase};
use crate::fault::{FAULTS, Fault, Kind};

pub(crate) const USAGE: &str = "\
usage: scripts/faults [options]
  --fault F[,F…]   these faults only (all)
  --phase P[,P…]   before, acquire, held, renewing, releasing, after (all)
  --client C[,C…]  redlock, and the controls: unguarded, plain (these three); redlock with readers and
                   writers: shared; with slots: slots
  --jobs N         cells at the same time (twice the number of processors)
  --markdown       the table for verify/faults/results.md on the standard output
  --list           the faults, and what is promised under each";

#[derive(Clone, Debug)]
pub(crate) struct Options {
    faults: Vec<&'static Fault>,
    phases: Vec<Phase>,
    clients: Vec<Client>,
    pub(crate) jobs: usize,
    pub(crate) markdown: bool,
}

#[derive(Debug)]
pub(crate) enum Request {
    Run(Options),
    List,
    Help,
}

impl Options {
    pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Result<Request, String> {
        let mut options = Self {
            faults: FAULTS.iter().collect(),
            phases: Phase::ALL.to_vec(),
            clients: Client::USUAL.to_vec(),
            jobs: 2 * thread::available_parallelism().map_or(2, usize::from),
            markdown: false,
        };
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("{arg} needs a value"));
            match arg.as_str() {
                "--fault" => options.faults = each(&value()?, &FAULTS, |fault| fault.name)?,
                "--phase" => {
                    let phases = each(&value()?, &Phase::ALL, |phase| phase.name())?;
                    options.phases = phases.into_iter().copied().collect();
                }
                "--client" => {
                    let clients = each(&value()?, &Client::ALL, |client| client.name())?;
                    options.clients = clients.into_iter().copied().collect();
                }
                "--jobs" => {
                    let jobs = value()?;
                    let number = jobs.parse().ok().filter(|&jobs| jobs > 0);
                    options.jobs = number.ok_or(format!("--jobs needs a number, not {jobs:?}"))?;
                }
                "--markdown" => options.markdown = true,
                "--list" => return Ok(Request::List),
                "--help" | "-h" => return Ok(Request::Help),
                other => return Err(format!("unknown argument: {other}")),
            }
        }
        Ok(Request::Run(options))
    }

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
        match Options::parse(args.split_whitespace().map(str::to_owned))? {
            Request::Run(options) => Ok(options.cells().iter().map(Cell::to_string).collect()),
            other => Err(format!("{other:?}")),
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
}
