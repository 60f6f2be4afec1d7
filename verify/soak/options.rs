use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::random::Random;
use crate::trial::{LeftOut, Mode, Trial};

pub(crate) const USAGE: &str = "\
usage: scripts/soak [options]
  --seconds N     for each mode (60); the control takes as long, and at most 60
  --seed S        the same faults as in the run that showed this seed
  --mode M        default, strict, both (both), each with the control; or control alone
  --workers N     processes that contend (3)
  --tasks N       tasks in each of them (12)
  --without W     restart-guard, clock-guard, clock-faults; may be repeated. Modes without one of
                  their guards are shown, not judged.
  --verbose       every fault as it happens";

/// By then, the control has shown what it is there for.
const LONGEST_CONTROL: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) time: Duration,
    pub(crate) seed: u64,
    pub(crate) workers: usize,
    pub(crate) tasks: usize,
    pub(crate) left_out: LeftOut,
    pub(crate) verbose: bool,
    trials: Vec<Trial>,
}

impl Options {
    /// `None` if help was asked for.
    pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let mut options = Self {
            time: Duration::from_secs(60),
            seed: fresh_seed(),
            workers: 3,
            tasks: 12,
            left_out: LeftOut::default(),
            verbose: false,
            trials: Vec::new(),
        };
        let mut mode = "both".to_owned();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("{arg} needs a value"));
            match arg.as_str() {
                "--seconds" => options.time = Duration::from_secs(number(&arg, &value()?, 1)?),
                "--seed" => options.seed = number(&arg, &value()?, 0)?,
                "--mode" => mode = value()?,
                "--workers" => options.workers = index(&arg, &value()?)?,
                "--tasks" => options.tasks = index(&arg, &value()?)?,
                "--without" => match value()?.as_str() {
                    "restart-guard" => options.left_out.restart_guard = true,
                    "clock-guard" => options.left_out.clock_guard = true,
                    "clock-faults" => options.left_out.clock_faults = true,
                    other => return Err(format!("there is no {other} to do without")),
                },
                "--verbose" => options.verbose = true,
                "--help" | "-h" => return Ok(None),
                other => return Err(format!("unknown argument: {other}")),
            }
        }
        let (modes, of_control) = match mode.as_str() {
            "default" => (&[Mode::Default][..], Mode::Default),
            "strict" => (&[Mode::Strict][..], Mode::Strict),
            "both" => (&[Mode::Default, Mode::Strict][..], Mode::Default),
            "control" => (&[][..], Mode::Default),
            other => return Err(format!("unknown mode: {other}")),
        };
        options.trials = modes.iter().map(|mode| mode.trial(options.left_out)).collect();
        options.trials.push(of_control.control(options.left_out));
        Ok(Some(options))
    }

    pub(crate) fn trials(&self) -> &[Trial] {
        &self.trials
    }

    pub(crate) fn length(&self, trial: &Trial) -> Duration {
        if trial.is_control() { self.time.min(LONGEST_CONTROL) } else { self.time }
    }
}

fn number(arg: &str, value: &str, least: u64) -> Result<u64, String> {
    let number = value.parse().ok().filter(|&number| number >= least);
    number.ok_or(format!("{arg} wants a whole number from {least} on, not {value:?}"))
}

fn index(arg: &str, value: &str) -> Result<usize, String> {
    let number = number(arg, value, 1)?;
    usize::try_from(number).map_err(|_| format!("{arg} wants a smaller number than {value}"))
}

/// Short enough to be typed again.
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
        options.trials().iter().map(|trial| trial.name.clone()).collect()
    }

    #[test]
    fn every_mode_comes_with_the_control() {
        let control = "control: plain Redlock";
        assert_eq!(names(""), ["default", "strict", control]);
        assert_eq!(names("--mode strict"), ["strict", control]);
        assert_eq!(names("--mode control"), [control]);
    }

    #[test]
    fn the_name_tells_what_is_left_out() {
        let args = "--mode strict --without clock-guard --without restart-guard";
        assert_eq!(names(args)[0], "strict, no restart guard, no clock guard");
    }

    #[test]
    fn numbers_are_taken() {
        let args = "--seconds 90 --seed 7 --workers 4 --tasks 2";
        let options = parse(args).expect("valid").expect("no help");
        assert_eq!((options.seed, options.workers, options.tasks), (7, 4, 2));
        let lengths: Vec<_> =
            options.trials().iter().map(|trial| options.length(trial).as_secs()).collect();
        assert_eq!(lengths, [90, 90, 60]);
    }

    #[test]
    fn nonsense_is_refused() {
        for args in ["--seconds 0", "--seed x", "--mode all", "--without luck", "--seed", "fast"] {
            assert!(parse(args).is_err(), "{args}");
        }
    }
}
