//! Command-line options.

use std::time::Duration;

use crate::scenarios::NAMES;

#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) rounds: usize,
    /// Duration of each measurement.
    pub(crate) time: Duration,
    /// The scenarios to run; empty for all of them.
    only: Vec<String>,
}

impl Options {
    /// Parses the arguments. Ends the program if they are invalid.
    pub(crate) fn from_args() -> Self {
        Self::parse(std::env::args().skip(1)).unwrap_or_else(|problem| {
            let names = NAMES.join(" ");
            eprintln!(
                "{problem}\nusage: [--rounds N] [--seconds S] [SCENARIO...], where these are: {names}"
            );
            std::process::exit(2);
        })
    }

    fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self { rounds: 3, time: Duration::from_secs(2), only: Vec::new() };
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("{arg} needs a value"));
            match arg.as_str() {
                "--rounds" => {
                    options.rounds = value()?
                        .parse()
                        .ok()
                        .filter(|&rounds| rounds > 0)
                        .ok_or("--rounds needs a number above zero")?;
                }
                "--seconds" => {
                    options.time = value()?
                        .parse()
                        .ok()
                        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
                        .filter(|time| !time.is_zero())
                        .ok_or("--seconds needs a number above zero")?;
                }
                // Cargo passes this argument to benchmarks.
                "--bench" => {}
                name if NAMES.contains(&name) => options.only.push(arg),
                other => return Err(format!("unknown argument: {other}")),
            }
        }
        Ok(options)
    }

    pub(crate) fn wants(&self, scenario: &str) -> bool {
        self.only.is_empty() || self.is_named(scenario)
    }

    pub(crate) fn is_named(&self, scenario: &str) -> bool {
        self.only.iter().any(|name| name == scenario)
    }

    /// Measures all contestants in each round, in a different order each time, as the first one may
    /// find the machine cooler or busier.
    pub(crate) fn rounds<T: Copy>(&self, all: &[T], mut measure: impl FnMut(T)) {
        for round in 0..self.rounds {
            for one in rotated(all, round) {
                measure(one);
            }
        }
    }
}

pub(crate) fn rotated<T: Copy>(all: &[T], by: usize) -> impl Iterator<Item = T> {
    all.iter().cycle().skip(by % all.len()).take(all.len()).copied()
}
