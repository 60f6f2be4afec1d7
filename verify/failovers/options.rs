//! Command-line options of the failovers.

use std::time::{SystemTime, UNIX_EPOCH};

use tower_redlock_verify::random::Random;

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
    pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let mut options =
            Self { failovers: 100, seed: fresh_seed(), workers: 3, tasks: 9, is_guarded: true };
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("{arg} needs a value"));
            match arg.as_str() {
                "--failovers" => options.failovers = count(&arg, &value()?)?,
                "--seed" => {
                    let value = value()?;
                    let seed = value.parse();
                    options.seed =
                        seed.map_err(|_| format!("--seed needs a whole number, not {value:?}"))?;
                }
                "--workers" => options.workers = count(&arg, &value()?)?,
                "--tasks" => options.tasks = count(&arg, &value()?)?,
                "--without" => match value()?.as_str() {
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

fn count(arg: &str, value: &str) -> Result<usize, String> {
    let count = value.parse().ok().filter(|&count| count > 0);
    count.ok_or(format!("{arg} needs a whole number from 1 on, not {value:?}"))
}

/// Returns a random seed that is short enough to type.
fn fresh_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = u64::try_from(now.as_nanos()).unwrap_or_default();
    Random::stream(now, std::process::id().into()).below(1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &str) -> Result<Option<Options>, String> {
        Options::parse(args.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn numbers_are_taken() {
        let args = "--failovers 6 --seed 7 --workers 4 --tasks 2 --without restart-guard";
        let options = parse(args).expect("valid").expect("no help");
        assert_eq!((options.failovers, options.seed), (6, 7));
        assert_eq!((options.workers, options.tasks, options.is_guarded), (4, 2, false));
    }

    #[test]
    fn nonsense_is_refused() {
        for args in ["--failovers 0", "--seed x", "--without luck", "--seed", "fast"] {
            assert!(parse(args).is_err(), "{args}");
        }
    }
}
