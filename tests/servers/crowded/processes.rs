//! Processes that compete for one name, checked by a server without a vote.

use std::time::{Duration, Instant};

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};
use tower_redlock::Redlock;

use crate::fixture::{
    LONG, RedisServer,
    child::{TestProcess, orders},
    connected, over, patient,
};

const PROCESSES: usize = 4;
const TASKS: usize = 4;
const FIGHT: Duration = Duration::from_secs(2);

/// A server without a vote: counts the processes inside, and records tokens and turns.
struct Witness(BufReader<TcpStream>);

impl Witness {
    async fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self(BufReader::new(stream))
    }

    async fn ask(&mut self, command: String) -> String {
        self.0.get_mut().write_all((command + "\r\n").as_bytes()).await.unwrap();
        let mut line = String::new();
        self.0.read_line(&mut line).await.unwrap();
        line.trim().to_owned()
    }

    /// Number of processes inside, including this one.
    async fn enter(&mut self, token: u64) -> String {
        let script = "redis.call('RPUSH','tokens',ARGV[1]) \
                      redis.call('HINCRBY','turns',ARGV[2],1) \
                      return redis.call('INCR','inside')";
        let process = std::process::id();
        self.ask(format!("EVAL \"{script}\" 0 {token} {process}")).await
    }

    async fn leave(&mut self) -> String {
        self.ask("DECR inside".into()).await
    }
}

async fn fight(redlock: Redlock, witness: String, hold: Duration) {
    let mut witness = Witness::connect(&witness).await;
    let started = Instant::now();
    while started.elapsed() < FIGHT {
        let work = async |cx: tower_redlock::LockContext| {
            assert_eq!(witness.enter(cx.fencing_token().get()).await, ":1");
            // The duration of the work.
            tokio::time::sleep(hold).await;
            assert_eq!(witness.leave().await, ":0");
        };
        redlock.lock("x").wait(LONG).run(work).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fighter() {
    let Some(orders) = orders() else { return };
    let mut urls = orders.split(' ');
    let witness = urls.next().unwrap().to_owned();
    let hold = Duration::from_millis(urls.next().unwrap().parse().unwrap());
    let redlock = connected(over(patient(), urls)).await;
    let tasks = (0..TASKS).map(|_| tokio::spawn(fight(redlock.clone(), witness.clone(), hold)));
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    redlock.shutdown().await;
}

/// Runs the processes, with turns of `hold` ms, and returns the number of turns of each. A task's
/// last turn may come after the end.
fn turns(hold: u32) -> Vec<u64> {
    let servers = RedisServer::start_n(6);
    let (witness, voters) = servers.split_first().unwrap();
    let urls = voters.iter().map(RedisServer::url).collect::<Vec<_>>().join(" ");
    let orders = format!("{} {hold} {urls}", witness.addr());
    let processes: Vec<_> =
        (0..PROCESSES).map(|_| TestProcess::start(module_path!(), "fighter", &orders)).collect();
    processes.into_iter().for_each(TestProcess::finish);

    let items = |command: &[&str]| -> Vec<u64> {
        let items = witness.cli(command).items().into_iter();
        items.map(|item| item.text().parse().unwrap()).collect()
    };
    let tokens = items(&["LRANGE", "tokens", "0", "-1"]);
    assert!(tokens.windows(2).all(|pair| pair[0] < pair[1]), "in the order of holding");
    let handed_on = tokens.windows(2).filter(|pair| pair[0] + 1 == pair[1]).count();
    assert!(handed_on > 0, "tasks of a process hand the lock over");
    let turns = items(&["HVALS", "turns"]);
    println!("turns: {turns:?}");
    assert_eq!(turns.iter().sum::<u64>(), tokens.len() as u64);
    assert!(voters.iter().all(|server| server.keys("redlock:lock:*").is_empty()));
    turns
}

#[test]
fn competing_processes_have_similar_numbers_of_turns() {
    for hold in [1, 20] {
        let turns = turns(hold);
        assert_eq!(turns.len(), PROCESSES, "every process had a turn: {turns:?}");
        let fair = turns.iter().sum::<u64>() / PROCESSES as u64;
        assert!(turns.iter().all(|turns| *turns > fair / 5), "{hold} ms: {turns:?}");
    }
}
