//! The command line.

pub(crate) const USAGE: &str = "\
A bank whose withdrawals run one at a time per account, and a report that only one of
three replicas makes. The page /locks/ shows the locks and the reports.

usage: demo [--port PORT] [--drive COUNT] [--check]

Until it is stopped, it sends itself a few requests a second.

  --port PORT    listen on 127.0.0.1:PORT; 0 takes any free port (default: 8080, with --check: 0)
  --drive COUNT  send itself COUNT requests at once, print and check the outcome, and stop
  --check        the same (COUNT: 200), with a few ticks of the report; both exit with 1 if a
                 check failed
  --help         print this

environment:
  REDLOCK_NODES  independent Redis servers, redis://host:port[,redis://host:port...];
                 without it, five nodes inside this process
";

const DEFAULT_PORT: u16 = 8080;
const DEFAULT_DRIVE: usize = 200;

pub(crate) enum Command {
    Run(Args),
    Help,
}

pub(crate) struct Args {
    pub(crate) port: u16,
    /// The number of requests to send; `None` serves until it is stopped.
    pub(crate) drive: Option<usize>,
    pub(crate) check: bool,
}

pub(crate) fn parse(args: impl IntoIterator<Item = String>) -> Result<Command, String> {
    let (mut port, mut drive, mut check) = (None, None, false);
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        // `--port=80` and `--port 80` are the same.
        let (name, mut value) = match arg.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (arg.as_str(), None),
        };
        let mut value = |what| {
            value.take().or_else(|| args.next()).ok_or_else(|| format!("{name} needs {what}"))
        };
        match name {
            "--port" => {
                let given = value("a port")?;
                let number = given.parse().map_err(|_| format!("--port: {given} is not a port"))?;
                port = Some(number);
            }
            "--drive" => {
                let given = value("a number of requests")?;
                let count = given.parse().ok().filter(|count| *count > 0);
                drive = Some(count.ok_or_else(|| {
                    format!("--drive: {given} is not a number of requests, 1 or more")
                })?);
            }
            "--check" if arg == name => check = true,
            "--help" | "-h" if arg == name => return Ok(Command::Help),
            _ => return Err(format!("unknown argument {arg}")),
        }
    }
    Ok(Command::Run(Args {
        port: port.unwrap_or(if check { 0 } else { DEFAULT_PORT }),
        drive: drive.or(check.then_some(DEFAULT_DRIVE)),
        check,
    }))
}
