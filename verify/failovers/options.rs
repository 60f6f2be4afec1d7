//! Command-line options of the failovers.

use tower_redlock_verify::program::{Args, fresh_seed};

pub(crate) const USAGE: &str = "\
usage: scripts/failovers [options]
  --failovers N   number of failovers (100)
  --seed S        the same failovers as in the run that showed this seed
  --workers N     processes that contend (3)
  --tasks N       tasks in each of them (9)
  --without restart-guard  shows what the guard is worth: this run is expected to fail";

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) failovers: usize,
    pub(crate) seed: u64,
    pub(crate) workers: usize,
    pub(crate) tasks: usize,
    pub(crate) is_guarded: bool,
}

impl Options {
    /// `None` if help was requested.
    pub(crate) fn parse(mut args: Args) -> Result<Option<Self>, String> {
        let mut options =
            Self { failovers: 100, seed: fresh_seed(), workers: 3, tasks: 9, is_guarded: true };
        while let Some(option) = args.option() {
            match option.as_str() {
                "--failovers" => options.failovers = args.count(&option)?,
                "--seed" => options.seed = args.number(&option)?,
                "--workers" => options.workers = args.count(&option)?,
                "--tasks" => options.tasks = args.count(&option)?,
                "--without" => match args.value(&option)?.as_str() {
                    "restart-guard" => options.is_guarded = false,
                    other => return Err(format!("--without {other} is unknown")),
                },
                "--help" | "-h" => return Ok(None),
                other => return Err(format!("unknown argument: {other}")),
            }
        }
        Ok(Some(options))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_taken() {
        let args = "--failovers 6 --seed 7 --workers 4 --tasks 2 --without restart-guard";
        let options = Options::parse(Args::of(args)).expect("valid").expect("no help");
        assert_eq!((options.failovers, options.seed), (6, 7));
        assert_eq!((options.workers, options.tasks, options.is_guarded), (4, 2, false));
    }

    #[test]
    fn nonsense_is_refused() {
        for args in ["--failovers 0", "--seed x", "--without luck", "--seed", "fast"] {
            assert!(Options::parse(Args::of(args)).is_err(), "{args}");
        }
    }
}
