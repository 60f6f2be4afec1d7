//! A master, a replica and the Sentinels that watch them.

use std::fs;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use super::cli::roundtrip;
use super::home::Home;
use super::port::{self, Port};
use super::process::Process;
use super::program::program;
use super::resp::Resp;
use super::server::RedisServer;
use super::wait::eventually;

/// The name under which the Sentinels know the master.
pub const SERVICE: &str = "locks";

/// Time without an answer after which a Sentinel takes a master for dead, in milliseconds.
const DOWN_AFTER: &str = "500";
const FAILOVER_TIMEOUT: &str = "3000";

/// Three Sentinels, and two servers of which one is the master.
#[derive(Debug)]
pub struct Sentinels {
    pub servers: [RedisServer; 2],
    sentinels: Vec<Sentinel>,
}

/// The password of Sentinels that have one.
type Password = Option<&'static str>;

#[derive(Debug)]
pub struct Sentinel {
    // Declared before the home, as in servers.
    process: Process,
    port: Port,
    password: Password,
    _home: Home,
}

impl Sentinels {
    /// Starts them, and waits until all know each other and the replica.
    pub fn start() -> Self {
        Self::with(None)
    }

    /// Starts them like [`start`](Self::start), with a password for the Sentinels.
    pub fn with(password: Password) -> Self {
        let servers = [RedisServer::start(), RedisServer::start()];
        servers[1].replica_of(&servers[0]);
        let config = |password: &str| {
            ["requirepass ", password, "\nsentinel sentinel-pass ", password, "\n"].concat()
        };
        let config = password.map_or_else(String::new, config);
        let sentinels =
            (0..3).map(|_| Sentinel::start(servers[0].addr(), password, &config)).collect();
        let started = Self { servers, sentinels };
        eventually("the Sentinels know each other", || {
            started.sentinels.iter().all(|sentinel| {
                let master = sentinel.master();
                master.get("num-other-sentinels") == Some("2".into())
                    && master.get("num-slaves") == Some("1".into())
            })
        });
        started
    }

    /// The URL of the master, by all Sentinels.
    pub fn url(&self) -> String {
        Self::url_over(self.addresses())
    }

    /// Returns the URL of the master by these Sentinels, or by proxies in front of them.
    pub fn url_over(sentinels: impl IntoIterator<Item = SocketAddr>) -> String {
        let addresses: Vec<_> = sentinels.into_iter().map(|it| it.to_string()).collect();
        format!("redis+sentinel://{}/{SERVICE}", addresses.join(","))
    }

    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.sentinels.iter().map(Sentinel::addr).collect()
    }

    /// Sends a command to every Sentinel.
    #[track_caller]
    pub fn order(&self, command: &[&str]) {
        for sentinel in &self.sentinels {
            let answer = roundtrip(sentinel.addr(), sentinel.password, command).ok();
            assert_eq!(answer, Some(Resp::Simple("OK".into())), "{command:?}");
        }
    }

    /// The index of the server that most Sentinels call the master.
    pub fn master(&self) -> usize {
        let named: Vec<_> = self.sentinels.iter().map(Sentinel::named).collect();
        let count = |server: &RedisServer| {
            named.iter().filter(|port| **port == server.port().to_string()).count()
        };
        usize::from(count(&self.servers[1]) > count(&self.servers[0]))
    }

    /// Waits until most Sentinels call this server the master.
    pub fn await_master(&self, server: usize) {
        eventually("the Sentinels name the new master", || self.master() == server);
    }

    /// Has the Sentinels promote the replica.
    pub fn fail_over(&self) {
        eventually("a Sentinel begins a failover", || {
            let answer = self.sentinels[0].ask(&["FAILOVER", SERVICE]);
            matches!(answer, Some(Resp::Simple(_)))
        });
    }

    /// Ends a Sentinel for good.
    pub fn kill_sentinel(&mut self) {
        self.sentinels.pop();
    }

    /// Stops all Sentinels, so that they do not answer.
    pub fn freeze_sentinels(&self) {
        self.sentinels.iter().for_each(|sentinel| sentinel.process.signal(Signal::STOP));
    }

    /// Stops the first Sentinel and removes it from the set.
    pub fn freeze_first(&mut self) -> Sentinel {
        let frozen = self.sentinels.remove(0);
        frozen.process.signal(Signal::STOP);
        frozen
    }

    pub fn thaw_sentinels(&self) {
        self.sentinels.iter().for_each(|sentinel| sentinel.process.signal(Signal::CONT));
    }
}

/// The fields of a `SENTINEL MASTER`.
struct Fields(Vec<String>);

impl Fields {
    fn get(&self, name: &str) -> Option<String> {
        self.0.chunks_exact(2).find(|pair| pair[0] == name).map(|pair| pair[1].clone())
    }
}

impl Sentinel {
    /// Starts one with further lines of its configuration.
    pub fn start(master: SocketAddr, password: Password, lines: &str) -> Self {
        loop {
            let (home, port) = (Home::new(), port::unused());
            let config = format!(
                "port {}\nbind 127.0.0.1\ndir {}\n\
                 sentinel monitor {SERVICE} {} {} 2\n\
                 sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER}\n\
                 sentinel failover-timeout {SERVICE} {FAILOVER_TIMEOUT}\n{lines}",
                port.number(),
                home.data().display(),
                master.ip(),
                master.port(),
            );
            let file = home.file("sentinel.conf");
            fs::write(&file, config).expect("the directory is ours");
            let file = file.to_str().expect("UTF-8").to_owned();
            let program = program().unwrap_or_else(|missing| panic!("{missing}"));
            let command = [program.to_owned(), file, "--sentinel".to_owned()];
            let mut process = Process::spawn(&command, &home.log());
            while !process.has_ended() {
                if roundtrip(port.addr(), password, &["PING"]).is_ok() {
                    return Self { process, port, password, _home: home };
                }
                thread::sleep(Duration::from_millis(5));
            }
        }
    }

    pub fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    fn ask(&self, args: &[&str]) -> Option<Resp> {
        let command: Vec<_> = std::iter::once(&"SENTINEL").chain(args).collect();
        roundtrip(self.port.addr(), self.password, &command).ok()
    }

    fn master(&self) -> Fields {
        let fields = self.ask(&["MASTER", SERVICE]).map_or(Vec::new(), Resp::items);
        Fields(fields.into_iter().map(Resp::text).collect())
    }

    /// The port of the master.
    fn named(&self) -> String {
        let address = self.ask(&["GET-MASTER-ADDR-BY-NAME", SERVICE]);
        address.and_then(|it| it.items().pop()).map_or(String::new(), Resp::text)
    }
}
