//! What the programs have in common: their arguments, workers and exit codes.

use std::env;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::random::Random;
use crate::stop::Stop;
use crate::worker::{self, Connect, WORKER};

/// Runs a program: a worker, if the first argument says so, or `run` with the options that `parse`
/// returns. Without options, the usage is printed. `run` returns why the run failed, if it did.
pub fn main<T>(
    program: &'static str,
    usage: &str,
    connect: Connect,
    parse: impl FnOnce(Args) -> Result<Option<T>, String>,
    run: impl FnOnce(&T, &Stop) -> Result<Vec<String>, String>,
) -> ExitCode {
    let fail = |problem: &str, code: u8| {
        eprintln!("{program}: {problem}");
        ExitCode::from(code)
    };
    let mut args = env::args().skip(1).peekable();
    if args.next_if(|first| first == WORKER).is_some() {
        let ended = worker::run(args, connect);
        return ended.map_or_else(|problem| fail(&problem, 1), |()| ExitCode::SUCCESS);
    }
    let options = match parse(Args::new(args)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            println!("{usage}");
            return ExitCode::SUCCESS;
        }
        Err(problem) => return fail(&format!("{problem}\n{usage}"), 2),
    };
    let (problems, stop) = match Stop::listen(program) {
        Ok(stop) => (run(&options, &stop), stop),
        Err(problem) => return fail(&problem, 1),
    };
    match problems {
        _ if stop.is_asked_for() => fail("interrupted: no verdict", 130),
        Ok(problems) if problems.is_empty() => ExitCode::SUCCESS,
        Ok(problems) => fail(&problems.join(&format!("\n{program}: ")), 1),
        Err(problem) => fail(&problem, 1),
    }
}

/// The arguments of a program.
#[derive(Debug)]
pub struct Args(Vec<String>);

impl Args {
    /// The arguments in this order.
    pub fn new(args: impl Iterator<Item = String>) -> Self {
        let mut args: Vec<_> = args.collect();
        args.reverse();
        Self(args)
    }

    /// The arguments in a text, for tests.
    pub fn of(text: &str) -> Self {
        Self::new(text.split_whitespace().map(str::to_owned))
    }

    /// The next option.
    pub fn option(&mut self) -> Option<String> {
        self.0.pop()
    }

    /// The value of an option.
    pub fn value(&mut self, option: &str) -> Result<String, String> {
        self.0.pop().ok_or(format!("{option} needs a value"))
    }

    /// The value of an option that is a whole number.
    pub fn number<T: FromStr>(&mut self, option: &str) -> Result<T, String> {
        let value = self.value(option)?;
        value.parse().map_err(|_| format!("{option} needs a whole number, not {value:?}"))
    }

    /// The value of an option that is a whole number from 1 on.
    pub fn count<T: FromStr + Default + PartialEq>(&mut self, option: &str) -> Result<T, String> {
        let count = self.number(option)?;
        if count == T::default() {
            Err(format!("{option} needs a number from 1 on"))
        } else {
            Ok(count)
        }
    }
}

/// Returns a random seed that is short enough to type.
pub fn fresh_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = u64::try_from(now.as_nanos()).unwrap_or_default();
    Random::stream(now, std::process::id().into()).below(1_000_000_000)
}
