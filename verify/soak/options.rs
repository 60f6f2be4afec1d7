//! Command-line options of the soak test.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::trial::{LeftOut, Trial};
use tower_redlock_verify::random::Random;

pub(crate) const USAGE: &str = "\
usage: scripts/soak [options]
  --seconds N     for the locks (60); the control runs after them
  --control-seconds N  for the control (as long)
  --seed S        the same faults as in the run that showed this seed
  --control-alone the control without the locks
  --workers N     processes that contend (3)
  --tasks N       tasks in each of them (12)
  --without W     restart-guard, clock-faults; may be repeated. Without the guard, overlaps must
                  show.
  --verbose       every fault as it happens";

#[derive(Clone, Debug)]
pub(crate) struct Options {
    time: Duration,
    control: Option<Duration>,
    pub(crate) seed: u64,
    pub(crate) workers: usize,
    pub(crate) tasks: usize,
    pub(crate) left_out: LeftOut,
    pub(crate) verbose: bool,
    pub(crate) trials: Vec<Trial>,
}

impl Options {
    /// `None` if help was requested.
    pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let mut options = Self {
            time: Duration::from_secs(60),
            control: None,
            seed: fresh_seed(),
            workers: 3,
            tasks: 12,
            left_out: LeftOut::default(),
            verbose: false,
            trials: Vec::new(),
        };
        let mut has_locks = true;
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("{arg} needs a value"));
            match arg.as_str() {
                "--seconds" => options.time = Duration::from_secs(number(&arg, &value()?, 1)?),
                "--control-seconds" => {
                    options.control = Some(Duration::from_secs(number(&arg, &value()?, 1)?));
                }
                "--seed" => options.seed = number(&arg, &value()?, 0)?,
                "--control-alone" => has_locks = false,
                "--workers" => options.workers = index(&arg, &value()?)?,
                "--tasks" => options.tasks = index(&arg, &value()?)?,
                "--without" => match value()?.as_str() {
                    "restart-guard" => options.left_out.restart_guard = true,
                    "clock-faults" => options.left_out.clock_faults = true,
                    other => return Err(format!("--without {other} is unknown")),
                },
                "--verbose" => options.verbose = true,
                "--help" | "-h" => return Ok(None),
                other => return Err(format!("unknown argument: {other}")),
            }
        }
        let left_out = options.left_out;
        options.trials.extend(has_locks.then(|| Trial::locks(left_out)));
        options.trials.push(Trial::control(left_out));
        Ok(Some(options))
    }

    pub(crate) fn length(&self, trial: &Trial) -> Duration {
        self.control.filter(|_| trial.is_control()).unwrap_or(self.time)
    }
}

fn number(arg: &str, value: &str, least: u64) -> Result<u64, String> {
    let number = value.parse().ok().filter(|&number| number >= least);
    number.ok_or(format!("{arg} needs a whole number from {least} on, not {value:?}"))
}

fn index(arg: &str, value: &str) -> Result<usize, String> {
    let number = number(arg, value, 1)?;
    usize::try_from(number).map_err(|_| format!("{arg} needs a smaller number than {value}"))
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

    fn names(args: &str) -> Vec<String> {
        let options = parse(args).expect("valid").expect("no help");
        options.trials.into_iter().map(|trial| trial.name).collect()
    }

    #[test]
    fn locks_come_with_their_control() {
        assert_eq!(names(""), ["default", "control"]);
        assert_eq!(names("--control-alone"), ["control"]);
    }

    #[test]
    fn name_shows_left_out_guard() {
        assert_eq!(names("--without restart-guard")[0], "default, no restart guard");
    }

    #[test]
    fn numbers_are_taken() {
        let args = "--seconds 90 --control-seconds 10 --seed 7 --workers 4 --tasks 2";
        let options = parse(args).expect("valid").expect("no help");
        assert_eq!((options.seed, options.workers, options.tasks), (7, 4, 2));
        let [default, control] = &options.trials[..] else { panic!("locks and a control") };
        assert_eq!(options.length(default), Duration::from_secs(90));
        assert_eq!(options.length(control), Duration::from_secs(10));
    }

    #[test]
    fn nonsense_is_refused() {
        for args in ["--seconds 0", "--seed x", "--mode all", "--without luck", "--seed", "fast"] {
            assert!(parse(args).is_err(), "{args}");
        }
    }
}
