//! The command line.

pub(crate) const USAGE: &str = "\
An orders service over gRPC that calls itself: one call at a time for each order.

usage: tonic_orders [--calls COUNT] [--check]

  --calls COUNT  send so many calls at once (default: 60, with --check: 240)
  --check        many calls; in any case it exits with 1 if a promise did not hold
  --help         print this

environment:
  REDLOCK_NODES  independent Redis servers, redis://host:port[,redis://host:port...];
                 without it, five nodes inside this process
";

const DEFAULT_CALLS: usize = 60;
const CALLS_TO_CHECK: usize = 240;

pub(crate) enum Command {
    Run(Args),
    Help,
}

pub(crate) struct Args {
    pub(crate) calls: usize,
}

pub(crate) fn parse(args: impl IntoIterator<Item = String>) -> Result<Command, String> {
    let (mut calls, mut check) = (None, false);
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--calls" => {
                let given = args.next().ok_or("--calls needs a number")?;
                let count = given.parse().ok().filter(|count| *count > 0);
                calls = Some(count.ok_or_else(|| {
                    format!("--calls: {given} is not a number of calls, 1 or more")
                })?);
            }
            "--check" => check = true,
            "--help" | "-h" => return Ok(Command::Help),
            _ => return Err(format!("unknown argument {arg}")),
        }
    }
    let default = if check { CALLS_TO_CHECK } else { DEFAULT_CALLS };
    Ok(Command::Run(Args { calls: calls.unwrap_or(default) }))
}
