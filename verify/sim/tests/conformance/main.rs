//! The simulated server and redis-server give the same answers.

mod real;
mod sequences;
mod states;

use tower_redlock_sim::redis::{Bytes, Reply, Server};

use self::real::RealServer;

/// Both servers, which get the same commands.
struct Pair {
    real: RealServer,
    simulated: Server,
}

impl Pair {
    fn new() -> Self {
        let simulated = Server::new("a".repeat(40), "b".repeat(40));
        Self { real: RealServer::start(), simulated }
    }

    /// Sends a command to both, and compares the answers. Returns the answer of redis-server.
    #[track_caller]
    fn same(&mut self, args: &[impl AsRef<[u8]>]) -> Reply {
        let args: Vec<Bytes> = args.iter().map(|arg| arg.as_ref().to_vec()).collect();
        let real = alike(self.real.ask(&args), &args);
        let ours = alike(self.ours(&args), &args);
        let shown: Vec<_> = args.iter().map(|arg| String::from_utf8_lossy(arg)).collect();
        let is_time = ["PTTL", "PEXPIRETIME"].contains(&&*shown[0]);
        if !(is_time && is_close(&ours, &real)) {
            assert_eq!(ours, real, "ours is the left one, after {shown:?}");
        }
        real
    }

    fn ours(&mut self, args: &[Bytes]) -> Reply {
        self.simulated.run(1, now(), args).remove(0)
    }

    /// Runs a script on both, and compares the answers.
    #[track_caller]
    fn same_script(&mut self, text: &str, keys: &[&str], args: &[&str]) -> Reply {
        let count = keys.len().to_string();
        let mut all = vec!["EVAL", text, &count];
        all.extend(keys);
        all.extend(args);
        self.same(&all)
    }
}

/// The system's clock in µs.
fn now() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    now.as_micros().try_into().unwrap()
}

/// Returns whether two times in ms differ by less than a second, as both servers read their own
/// clocks, one after the other.
fn is_close(ours: &Reply, real: &Reply) -> bool {
    matches!((ours, real), (Reply::Int(ours @ 0..), Reply::Int(real @ 0..)) if ours.abs_diff(*real) < 1_000)
}

/// Removes the parts that may differ: the order of fields and keys, and where a script failed.
fn alike(reply: Reply, args: &[Bytes]) -> Reply {
    let name = String::from_utf8_lossy(&args[0]).to_ascii_lowercase();
    match reply {
        Reply::Error(text) => {
            let text = text.split(" script: ").next().unwrap_or_default();
            // Redis replaces line breaks when it sends an error.
            let text = text.replace(['\r', '\n'], " ");
            let text = if text.starts_with("ERR Error compiling script") {
                "ERR Error compiling script".into()
            } else {
                text
            };
            Reply::Error(text)
        }
        Reply::Array(items) if name == "hgetall" => {
            let mut pairs: Vec<_> = items.chunks(2).map(<[Reply]>::to_vec).collect();
            pairs.sort_by_key(|pair| format!("{pair:?}"));
            Reply::Array(pairs.concat())
        }
        Reply::Array(mut items) if name == "keys" => {
            items.sort_by_key(|item| format!("{item:?}"));
            Reply::Array(items)
        }
        Reply::Array(items) => {
            let inner = [b"other".to_vec()];
            Reply::Array(items.into_iter().map(|item| alike(item, &inner)).collect())
        }
        other => other,
    }
}
