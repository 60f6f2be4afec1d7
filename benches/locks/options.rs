use std::time::Duration;

pub(crate) const USAGE: &str = "usage: cargo bench -p tower-redlock-benches -- [--rounds N] [--seconds S] [--await-release | --contended [--handoff-limit N]]";

#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) rounds: usize,
    /// How long each measurement lasts.
    pub(crate) time: Duration,
    /// This crate's cycle ends when a quorum acknowledged the release, not when the lock is dropped.
    pub(crate) await_release: bool,
    /// Many tasks of one process want one name; nothing else is measured.
    pub(crate) contended: bool,
    /// Another than the default.
    pub(crate) handoff_limit: Option<u32>,
}

impl Options {
    pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            rounds: 5,
            time: Duration::from_secs(2),
            await_release: false,
            contended: false,
            handoff_limit: None,
        };
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("{arg} needs a value"));
            match arg.as_str() {
                "--rounds" => {
                    options.rounds = value()?
                        .parse()
                        .ok()
                        .filter(|&rounds| rounds > 0)
                        .ok_or("--rounds wants a number above zero")?;
                }
                "--seconds" => {
                    options.time = value()?
                        .parse()
                        .ok()
                        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
                        .filter(|time| !time.is_zero())
                        .ok_or("--seconds wants a number above zero")?;
                }
                "--handoff-limit" => {
                    let limit = value()?.parse();
                    options.handoff_limit = Some(limit.or(Err("--handoff-limit wants a number"))?);
                }
                "--contended" => options.contended = true,
                "--await-release" => options.await_release = true,
                // Cargo says that this is a benchmark.
                "--bench" => {}
                other => return Err(format!("unknown argument: {other}")),
            }
        }
        Ok(options)
    }
}
