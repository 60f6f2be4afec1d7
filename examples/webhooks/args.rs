//! The command line.

use std::path::PathBuf;

pub(crate) const USAGE: &str = "\
Webhooks that are sent again and again, and handled once.

usage: webhooks [--check]

  --check        send 1,000 events, each 1 to 5 times, to two receivers, one of which is killed;
                 print a summary, and exit with 1 if a promise did not hold; without it, receive
                 on 127.0.0.1:8080 until Ctrl-C
  --help         print this

environment:
  REDLOCK_NODES  independent Redis servers, redis://host:port[,redis://host:port...];
                 without it, five nodes inside this process
";

pub(crate) enum Command {
    Serve,
    Check,
    Receiver { name: String, effects: PathBuf },
    Help,
}

pub(crate) fn parse(args: impl IntoIterator<Item = String>) -> Result<Command, String> {
    let args: Vec<String> = args.into_iter().collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => Ok(Command::Serve),
        ["--check"] => Ok(Command::Check),
        ["--help" | "-h"] => Ok(Command::Help),
        // How this program starts itself as a receiver.
        ["--receiver", name, effects] => {
            Ok(Command::Receiver { name: name.to_owned(), effects: effects.into() })
        }
        _ => Err(format!("unknown arguments: {}", args.join(" "))),
    }
}
