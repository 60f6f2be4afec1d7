//! The command line.

pub(crate) const USAGE: &str = "\
Three candidates for leading; the leader is killed, and another takes over.

usage: leader [--rounds COUNT] [--check]

  --rounds COUNT  how many leaders are killed (default: 1, with --check: 3)
  --check         for scripts; in any case, the exit code is 1 if a promise did not hold
  --help          print this

environment:
  REDLOCK_NODES   independent Redis servers, redis://host:port[,redis://host:port...];
                  without it, five nodes inside this process
";

pub(crate) enum Command {
    Story { rounds: usize },
    Candidate { name: String },
    Help,
}

pub(crate) fn parse(args: impl IntoIterator<Item = String>) -> Result<Command, String> {
    let mut args = args.into_iter();
    let (mut rounds, mut check) = (None, false);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--rounds" => {
                let count = args.next().and_then(|count| count.parse().ok());
                let count = count.filter(|count| *count > 0);
                rounds = Some(count.ok_or("--rounds needs a number, 1 or more")?);
            }
            "--check" => check = true,
            "--help" | "-h" => return Ok(Command::Help),
            // How this program starts itself as a candidate.
            "--candidate" => {
                let name = args.next().ok_or("--candidate needs a name")?;
                return Ok(Command::Candidate { name });
            }
            _ => return Err(format!("unknown argument {arg}")),
        }
    }
    Ok(Command::Story { rounds: rounds.unwrap_or(if check { 3 } else { 1 }) })
}
