//! Command-line options of the soak test.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::trial::{LeftOut, Mode, Trial};
use tower_redlock_verify::random::Random;

pub(crate) const USAGE: &str = "\
usage: scripts/soak [options]
  --seconds N     for each mode (60); modes run side by side, each control after its mode
  --control-seconds N  for each control (as long as its mode)
  --seed S        the same faults as in the run that showed this seed
  --mode M        default, strict, both (both), each with its control; or control alone
  --workers N     processes that contend (3)
  --tasks N       tasks in each of them (12)
  --without W     restart-guard, clock-guard, clock-faults; may be repeated. A mode without one of
                  its guards must show overlaps.
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
    tracks: Vec<Vec<Trial>>,
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
            tracks: Vec::new(),
        };
        let mut mode = "both".to_owned();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("{arg} needs a value"));
            match arg.as_str() {
                "--seconds" => options.time = Duration::from_secs(number(&arg, &value()?, 1)?),
                "--control-seconds" => {
                    options.control = Some(Duration::from_secs(number(&arg, &value()?, 1)?));
                }
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
        let (modes, has_locks) = match mode.as_str() {
            "default" => (&[Mode::Default][..], true),
            "strict" => (&[Mode::Strict][..], true),
            "both" => (&Mode::ALL[..], true),
            "control" => (&Mode::ALL[..], false),
            other => return Err(format!("unknown mode: {other}")),
        };
        let left_out = options.left_out;
        if left_out.clock_guard && left_out.clock_faults {
            return Err("without faults of clocks nothing shows what the clock guard does".into());
        }
        let locks = |mode: &Mode| has_locks.then(|| mode.trial(left_out));
        let track = |mode: &Mode| locks(mode).into_iter().chain([mode.control(left_out)]).collect();
        options.tracks = modes.iter().map(track).collect();
        Ok(Some(options))
    }

    /// What runs side by side; in each, one trial after the other.
    pub(crate) fn tracks(&self) -> &[Vec<Trial>] {
        &self.tracks
    }

    pub(crate) fn length(&self, trial: &Trial) -> Duration {
        self.control.filter(|_| trial.is_control()).unwrap_or(self.time)
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

    fn names(args: &str) -> Vec<Vec<String>> {
        let options = parse(args).expect("valid").expect("no help");
        let names = |track: &Vec<Trial>| track.iter().map(|trial| trial.name.clone()).collect();
        options.tracks().iter().map(names).collect()
    }

    #[test]
    fn every_mode_comes_with_its_control() {
        let default = ["default", "control of default"];
        let strict = ["strict", "control of strict"];
        assert_eq!(names(""), [default, strict]);
        assert_eq!(names("--mode strict"), [strict]);
        assert_eq!(names("--mode control"), [[default[1]], [strict[1]]]);
    }

    #[test]
    fn name_shows_left_out_guard() {
        let args = "--mode strict --without clock-guard --without restart-guard";
        assert_eq!(names(args)[0][0], "strict, no restart guard, no clock guard");
    }

    #[test]
    fn numbers_are_taken() {
        let args = "--seconds 90 --control-seconds 10 --seed 7 --workers 4 --tasks 2";
        let options = parse(args).expect("valid").expect("no help");
        assert_eq!((options.seed, options.workers, options.tasks), (7, 4, 2));
        let [default, control] = &options.tracks()[0][..] else { panic!("a mode and a control") };
        assert_eq!(options.length(default), Duration::from_secs(90));
        assert_eq!(options.length(control), Duration::from_secs(10));
    }

    #[test]
    fn nonsense_is_refused() {
        let guard_without_faults = "--without clock-guard --without clock-faults";
        for args in [
            "--seconds 0",
            "--seed x",
            "--mode all",
            "--without luck",
            "--seed",
            "fast",
            guard_without_faults,
        ] {
            assert!(parse(args).is_err(), "{args}");
        }
    }
}
