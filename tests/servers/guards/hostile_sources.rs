//! Copies of records while one of the sources is faulty or hostile.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tower_redlock::Redlock;

use crate::fixture::{
    Command, RedisServer, all_vote, eventually_async,
    guard::{all_copied, guarded, has_all_records, probation, quick, votes},
    intercept::Interceptor,
};

const RECORDS: usize = 1_500;

/// Index of the node whose server is hostile.
const HOSTILE: usize = 0;
/// Index of the node that forgets its records.
const BLANK: usize = 4;

/// A page of keys, and the cursor of the next one.
fn page(cursor: &str, keys: impl ExactSizeIterator<Item = usize>) -> Vec<u8> {
    let head = format!("*2\r\n${}\r\n{cursor}\r\n*{}\r\n", cursor.len(), keys.len());
    let key = |number| {
        let key = format!("redlock:done:hostile {number}");
        format!("${}\r\n{key}\r\n", key.len())
    };
    (head + &keys.map(key).collect::<String>()).into_bytes()
}

/// Records of the keys that a command reads, for a minute.
fn records(command: &Command, value: Option<&str>) -> Vec<u8> {
    let count: usize = str::from_utf8(&command[2]).unwrap().parse().expect("a number of keys");
    let record = match value {
        Some(value) => format!("${}\r\n{value}\r\n:60000\r\n", value.len()),
        None => "$-1\r\n:0\r\n".to_owned(),
    };
    (format!("*{}\r\n", 2 * count) + &record.repeat(count)).into_bytes()
}

/// A set of five. The last server forgets its records. When the records of the first server are
/// copied, the commands that scan keys and read records are answered in its place.
struct Fixture {
    servers: Vec<RedisServer>,
    redlock: Redlock,
    is_hostile: Arc<AtomicBool>,
}

impl Fixture {
    async fn new(
        interval: Duration,
        answer: impl Fn(&Command) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        let servers = RedisServer::start_n(5);
        let is_hostile = Arc::<AtomicBool>::default();
        let (answer, has_begun) = (Arc::new(answer), Arc::clone(&is_hostile));
        let connector = Interceptor::new(servers[HOSTILE].addr().to_string(), move || {
            let (answer, has_begun) = (Arc::clone(&answer), Arc::clone(&has_begun));
            let mut scans = false;
            Box::new(move |command| {
                scans |= command[0] == b"SCAN" && has_begun.load(Ordering::SeqCst);
                (scans && matches!(&*command[0], b"SCAN" | b"EVAL")).then(|| answer(command))
            })
        });
        let connector = connector.interval(interval);
        let urls = servers.iter().map(RedisServer::url);
        let redlock = guarded(quick().connector(connector), urls).build().unwrap();
        all_vote(&redlock).await;
        all_copied(&servers).await;
        Self { servers, redlock, is_hostile }
    }

    /// Stores records on some servers, and makes the last one forget.
    async fn forget(&mut self, with_records: &[usize]) {
        let fill = "for i = 1, ARGV[1] do \
                      redis.call('SET', 'redlock:done:' .. i, 'd ' .. i, 'PX', 60000) \
                    end return 1";
        for node in with_records {
            let count = RECORDS.to_string();
            assert_eq!(self.servers[*node].cli(&["EVAL", fill, "0", &count]).int(), 1);
        }
        self.is_hostile.store(true, Ordering::SeqCst);
        self.servers[BLANK].restart();
        probation(&self.redlock, &[BLANK]).await;
        votes(&self.redlock, BLANK).await;
    }

    async fn has_all(&self) {
        let blank = &self.servers[BLANK];
        all_copied(std::slice::from_ref(blank)).await;
        for i in [1, RECORDS / 2, RECORDS] {
            let value = Some(format!("d {i}").into_bytes());
            assert_eq!(blank.get(&format!("redlock:done:{i}")), value);
        }
    }
}

fn drip(_: &Command) -> Vec<u8> {
    b"*2\r\n$1000000\r\n0".to_vec()
}

const DRIP_INTERVAL: Duration = Duration::from_secs(1);

/// An answer would take a million seconds.
#[tokio::test]
async fn dripping_one_delays_no_other() {
    let mut fixture = Fixture::new(DRIP_INTERVAL, drip).await;
    fixture.forget(&[1, 3]).await;
    fixture.has_all().await;
}

#[tokio::test]
async fn endless_keys_delay_no_other() {
    let scanned = AtomicUsize::new(0);
    let value = format!("d {}", "x".repeat(1_000));
    let mut fixture = Fixture::new(Duration::ZERO, move |command| {
        if command[0] != b"SCAN" {
            return records(command, Some(&value));
        }
        let first = scanned.fetch_add(250, Ordering::SeqCst);
        page("1", first..first + 250)
    })
    .await;
    fixture.forget(&[1, 3]).await;

    fixture.has_all().await;
}

/// While another one is read without end.
#[tokio::test]
async fn incomplete_one_counts_once_complete() {
    let mut fixture = Fixture::new(DRIP_INTERVAL, drip).await;
    let connected = |fixture: &Fixture| fixture.servers[3].info("clients", "connected_clients");
    let before = connected(&fixture);
    // No client copies what this one lacks.
    fixture.servers[3].cli(&["HSET", "redlock:meta", "once", "by hand"]);
    fixture.forget(&[3]).await;
    let records = |fixture: &Fixture| fixture.servers[BLANK].keys("redlock:done:*").len();
    eventually_async("the incomplete source was read to its end", async || {
        records(&fixture) == RECORDS && connected(&fixture) == before
    })
    .await;
    assert!(!has_all_records(&fixture.servers[BLANK]));
    fixture.servers[3].cli(&["HSET", "redlock:meta", "once", ""]);
    fixture.has_all().await;
}

/// A script over all keys of the page would block the server that forgot.
#[tokio::test]
async fn long_page_is_split() {
    const KEYS: usize = 20_000;
    let mut fixture = Fixture::new(Duration::ZERO, |command| match &*command[0] {
        b"SCAN" => page("0", 0..KEYS),
        _ => records(command, None),
    })
    .await;
    fixture.forget(&[1, 3]).await;
    fixture.has_all().await;
    let stat =
        fixture.servers[BLANK].info("commandstats", "cmdstat_eval").expect("scripts have run");

    let calls = stat.split(['=', ',']).nth(1).unwrap().parse::<usize>().unwrap();

    assert!(calls >= KEYS / 250, "{stat}");
}
