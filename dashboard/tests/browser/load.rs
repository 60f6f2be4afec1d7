//! Many viewers, many locks: what they cost the servers, and how long the pages are.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use crate::{
    harness::{HANG_GUARD, html::assert_strict, http},
    scene::Scene,
    support::RedisServer,
};

const VIEWERS: usize = 100;
/// Maximum length of a page, in bytes.
const PAGE_LIMIT: usize = 200_000;

/// What a look may cost a server, unless the machine is so busy that a plain read costs a fifth of it.
const LOOK_LIMIT: Duration = Duration::from_millis(5);
/// The duration of the watch, from `DASHBOARD_LOAD_SECONDS`; by default 60.
fn watch() -> Duration {
    let given = std::env::var("DASHBOARD_LOAD_SECONDS").ok();
    let seconds = given.map_or(60, |given| given.parse().expect("a number of seconds"));
    Duration::from_secs(seconds)
}

/// The time that the server has spent so far in scripts and scans: all that a look sends.
fn used(server: &RedisServer) -> Duration {
    let of = |command| Duration::from_micros(stat(server, command, "usec="));
    of("eval") + of("evalsha") + of("scan")
}

/// A count of a command since the server began.
fn stat(server: &RedisServer, command: &str, field: &str) -> u64 {
    let stats = server.info("commandstats", &format!("cmdstat_{command}")).unwrap_or_default();
    let value = stats.split(',').find_map(|part| part.strip_prefix(field));
    value.map_or(0, |value| value.parse().expect("a number"))
}

/// The time that a server needs for the same keys without the library: about 1 ms, or 3 ms where other
/// processes use the caches.
fn plain_read(server: &RedisServer) -> Duration {
    const ROUNDS: u32 = 20;
    let script = "local read = {} for i = 0, 999 do local key = string.format('redlock:lock:lock:%05d', i) \
                  read[#read + 1] = redis.call('GET', key) read[#read + 1] = redis.call('PTTL', key) end \
                  return read";
    let before = used(server);
    for _ in 0..ROUNDS {
        server.cli(&["EVAL", script, "0"]);
    }
    let each = used(server).saturating_sub(before) / ROUNDS;
    println!("a plain read of the keys costs the server {each:.1?}");
    each
}

#[derive(Debug, Default)]
struct Seen {
    looks: BTreeSet<u64>,
    pages: usize,
    longest: usize,
    slowest: Duration,
}

/// Waits for a look at the servers, and returns its number.
async fn look_number(twin: &str) -> u64 {
    let mut number = None;
    crate::harness::eventually("the servers were read", async || {
        number = http::get(twin).await.json()["fleet"]["look"]["number"].as_u64();
        number.is_some()
    })
    .await;
    number.expect("it was found")
}

/// What each server spends from one look to the next: the least of some, as a busy machine adds to it.
async fn cheapest_looks(servers: &[RedisServer], twin: &str) -> Vec<Duration> {
    const LOOKS: usize = 8;
    let mut cheapest = vec![Duration::MAX; servers.len()];
    for _ in 0..LOOKS {
        let last = look_number(twin).await;
        let before: Vec<_> = servers.iter().map(used).collect();
        let next = async || look_number(twin).await > last;
        crate::harness::eventually("the servers are read again", next).await;
        for ((server, before), cheapest) in servers.iter().zip(before).zip(&mut cheapest) {
            *cheapest = used(server).saturating_sub(before).min(*cheapest);
        }
    }
    cheapest
}

/// Each viewer reads the page once a second, as the live pages do.
#[tokio::test(flavor = "multi_thread")]
async fn viewers_share_one_look() {
    let scene = Scene::new().await;
    scene.store_many(1_000);
    let site = scene.serve().await;
    let (page, twin) = (site.page("locks"), site.page("api/locks?q=none"));
    assert_strict(&page, &http::get(&page).await.body);
    let first = look_number(&twin).await;
    let seen = Arc::new(Mutex::new(Seen::default()));
    let (begun, watch) = (Instant::now(), watch());
    let viewers = (0..VIEWERS).map(|viewer| {
        let (seen, page, twin) = (Arc::clone(&seen), page.clone(), twin.clone());
        tokio::spawn(async move {
            let mut seconds = tokio::time::interval(Duration::from_secs(1));
            while begun.elapsed() < watch {
                seconds.tick().await;
                let asked = Instant::now();
                let answer = http::get(&page).await;
                let took = asked.elapsed();
                assert_eq!(answer.status, 200);
                let look = if viewer == 0 { Some(http::get(&twin).await.json()) } else { None };
                let mut seen = seen.lock().unwrap();
                seen.looks.extend(
                    look.as_ref().and_then(|look| look["fleet"]["look"]["number"].as_u64()),
                );
                seen.pages += 1;
                seen.longest = seen.longest.max(answer.body.len());
                seen.slowest = seen.slowest.max(took);
            }
        })
    });
    for viewer in viewers.collect::<Vec<_>>() {
        viewer.await.unwrap();
    }
    let watched = begun.elapsed();
    let looks = u32::try_from(look_number(&twin).await - first + 1).expect("a small number");
    let Seen { looks: numbers, pages, longest, slowest } =
        std::mem::take(&mut *seen.lock().unwrap());
    println!(
        "{VIEWERS} viewers, 1,000 locks: {looks} looks in {watched:.1?}, {pages} pages of at most {longest} bytes, the \
         slowest within {slowest:.0?}"
    );
    let limit = LOOK_LIMIT.max(4 * plain_read(&scene.servers[0]));
    for (server, each) in scene.servers.iter().zip(cheapest_looks(&scene.servers, &twin).await) {
        println!("a look costs {} {each:.1?}", server.addr());
        assert!(each < limit, "a look costs a server {each:?}, more than {limit:?}");
    }
    assert!(Duration::from_secs(looks.into()) <= watched + Duration::from_secs(2), "{looks} looks");
    assert!(numbers.len() >= 2, "the looks go on");
    assert!(longest < PAGE_LIMIT, "{longest} bytes");
    assert!(pages >= VIEWERS, "each viewer saw a page");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_keys_are_read_in_steps() {
    const KEYS: usize = 100_000;
    let scene = Scene::new().await;
    scene.store_many(KEYS);
    let site = scene.serve().await;
    // The first locks are shown before the others are read.
    crate::harness::eventually("the first are shown", async || {
        let first = http::get(&site.page("locks")).await;
        assert_strict("locks", &first.body);
        assert!(first.body.len() < PAGE_LIMIT, "{}", first.body.len());
        first.body.contains("data-lock=")
    })
    .await;
    // Reading takes a tenth of the time, so that servers have the rest for locks.
    let begun = Instant::now();
    loop {
        let twin = http::get(&site.page("api/locks?q=lock:99999")).await.json();
        if twin["fleet"]["look"]["partial"] == false && twin["fleet"]["found"] == 1 {
            break;
        }
        assert!(begun.elapsed() < 10 * HANG_GUARD, "not all are read: {twin}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    println!("{KEYS} keys are read within {:.1?}", begun.elapsed());
    let last = http::get(&site.page("locks?page=500")).await;
    assert_strict("locks", &last.body);
    assert!(last.body.contains("lock:99999"), "{}", last.body);
    assert!(last.body.len() < PAGE_LIMIT, "{}", last.body.len());
    for server in &scene.servers {
        let scans = stat(server, "scan", "calls=");
        assert!(scans >= 900, "steps of about a hundred: {scans}");
        assert_eq!(stat(server, "keys", "calls="), 0);
        println!("{scans} steps over {KEYS} keys");
    }
}
