//! The command line.

pub(crate) const USAGE: &str = "\
A job that three replicas schedule: each tick runs on one of them, once.

usage: scheduler [--check]

  --check        run for some seconds, print a summary, and exit with 1 if a promise did not
                 hold; without it, run until Ctrl-C
  --help         print this

environment:
  REDLOCK_NODES  independent Redis servers, redis://host:port[,redis://host:port...];
                 without it, five nodes inside this process
";

pub(crate) enum Command {
    Story { check: bool },
    Replica(usize),
    Help,
}

pub(crate) fn parse(args: impl IntoIterator<Item = String>) -> Result<Command, String> {
    let mut args = args.into_iter();
    let mut check = false;
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--check" => check = true,
            "--help" | "-h" => return Ok(Command::Help),
            // How this program starts itself as a replica.
            "--replica" => {
                let number = args.next().and_then(|number| number.parse().ok());
                return number.map(Command::Replica).ok_or("--replica needs a number".into());
            }
            _ => return Err(format!("unknown argument {arg}")),
        }
    }
    Ok(Command::Story { check })
}
