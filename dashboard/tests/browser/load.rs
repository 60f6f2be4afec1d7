//! Many viewers, many locks: what they cost the servers, and how long the pages are.

use std::time::{Duration, Instant};

use futures_util::future::join_all;

use crate::{
    fixture::Fixture,
    support::RedisServer,
    web::{HANG_GUARD, eventually, html::assert_strict, http},
};

const VIEWERS: usize = 100;
/// Maximum length of a page, in bytes.
const PAGE_LIMIT: usize = 200_000;
/// Maximum time of a server for one read of 1,000 locks, unless the machine is so busy that reading the keys without
/// the library takes a quarter of it.
const READ_LIMIT: Duration = Duration::from_millis(5);

/// Returns the time that the server has spent in scripts and scans: all that the dashboard sends.
fn used(server: &RedisServer) -> Duration {
    let of = |command| Duration::from_micros(stat(server, command, "usec="));
    of("eval") + of("evalsha") + of("scan")
}

/// Returns a count of a command since the server began.
fn stat(server: &RedisServer, command: &str, field: &str) -> u64 {
    let stats = server.info("commandstats", &format!("cmdstat_{command}")).unwrap_or_default();
    let value = stats.split(',').find_map(|part| part.strip_prefix(field));
    value.map_or(0, |value| value.parse().expect("a number"))
}

/// Returns the time that a server needs to read the same keys without the library.
fn plain_read(server: &RedisServer) -> Duration {
    const ROUNDS: u32 = 20;
    let script = "local read = {} for i = 0, 999 do local key = string.format('redlock:lock:lock:%05d', i) \
                  read[#read + 1] = redis.call('GET', key) read[#read + 1] = redis.call('PTTL', key) end \
                  return read";
    let before = used(server);
    for _ in 0..ROUNDS {
        server.cli(&["EVAL", script, "0"]);
    }
    used(server).saturating_sub(before) / ROUNDS
}

/// Waits until the servers were read more often than this, and returns how often.
async fn reads_after(twin: &str, earlier: u64) -> u64 {
    let mut number = 0;
    eventually("the servers are read again", async || {
        let fleet = &http::get(twin).await.json()["fleet"];
        number = fleet["look"]["number"].as_u64().unwrap_or(0);
        number > earlier
    })
    .await;
    number
}

/// Returns what each server spends from one read to the next: the least of some, as a busy machine adds to it.
async fn cheapest_reads(servers: &[RedisServer], twin: &str) -> Vec<Duration> {
    const READS: usize = 8;
    let mut cheapest = vec![Duration::MAX; servers.len()];
    let mut last = reads_after(twin, 0).await;
    for _ in 0..READS {
        let before: Vec<_> = servers.iter().map(used).collect();
        last = reads_after(twin, last).await;
        for ((server, before), cheapest) in servers.iter().zip(before).zip(&mut cheapest) {
            *cheapest = used(server).saturating_sub(before).min(*cheapest);
        }
    }
    cheapest
}

#[tokio::test(flavor = "multi_thread")]
async fn viewers_share_what_is_read() {
    const ROUNDS: u64 = 3;
    let fixture = Fixture::new().await;
    fixture.store_many(1_000);
    let site = fixture.serve().await;
    let (page, twin) = (site.page("locks"), site.page("api/locks?q=none"));
    let first = reads_after(&twin, 0).await;
    let begun = Instant::now();

    let mut last = first;
    for _ in 0..ROUNDS {
        let views = join_all((0..VIEWERS).map(|_| http::get(&page))).await;
        assert!(views.iter().all(|view| view.status == 200), "each viewer sees the page");
        assert!(views.iter().all(|view| view.body.len() < PAGE_LIMIT), "each page is short");
        assert_strict(&page, &views[0].body);
        last = reads_after(&twin, last).await;
    }

    let (reads, elapsed) = (last - first, begun.elapsed());
    assert!(reads <= elapsed.as_secs() + 2, "at most one read a second: {reads} in {elapsed:?}");
    let limit = READ_LIMIT.max(4 * plain_read(&fixture.servers[0]));
    for each in cheapest_reads(&fixture.servers, &twin).await {
        assert!(each < limit, "a read takes a server less than {limit:?}: {each:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_keys_are_read_in_steps() {
    const KEYS: usize = 30_000;
    let fixture = Fixture::new().await;
    fixture.store_many(KEYS);
    let site = fixture.serve().await;
    let shown = async |page: &str| {
        let page = http::get(&site.page(page)).await;
        assert_strict("locks", &page.body);
        assert!(page.body.len() < PAGE_LIMIT, "{} bytes", page.body.len());
        page.body
    };
    // The first locks are shown before the others are read.
    eventually("the first locks are shown", async || shown("locks").await.contains("data-lock="))
        .await;
    // Reading takes a tenth of the time, so that servers have the rest for locks.
    let begun = Instant::now();
    loop {
        let twin = http::get(&site.page("api/locks?q=lock:29999")).await.json();
        if twin["fleet"]["look"]["partial"] == false && twin["fleet"]["found"] == 1 {
            break;
        }
        assert!(begun.elapsed() < 10 * HANG_GUARD, "all locks are read: {twin}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(
        shown("locks?page=150").await.contains("lock:29999"),
        "the last page has the last lock"
    );
    for server in &fixture.servers {
        let scans = stat(server, "scan", "calls=");
        assert!(scans >= 270, "steps of about a hundred: {scans}");
        assert_eq!(stat(server, "keys", "calls="), 0);
    }
}
