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
/// The time in which it is measured what the servers do without viewers.
const IDLE: Duration = Duration::from_secs(5);

/// The duration of the watch, from `DASHBOARD_LOAD_SECONDS`; by default 60.
fn watch() -> Duration {
    let given = std::env::var("DASHBOARD_LOAD_SECONDS").ok();
    let seconds = given.map_or(60, |given| given.parse().expect("a number of seconds"));
    Duration::from_secs(seconds)
}

/// The processor time that the server has used so far: other than the time of its commands, it does not grow
/// while other processes have the processor.
fn used(server: &RedisServer) -> Duration {
    let of = |field| {
        let seconds = server.info("cpu", field).expect("servers tell their processor time");
        Duration::from_secs_f64(seconds.parse().expect("seconds"))
    };
    of("used_cpu_user_main_thread") + of("used_cpu_sys_main_thread")
}

/// The calls of a command so far.
fn calls(server: &RedisServer, command: &str) -> u64 {
    let stats = server.info("commandstats", &format!("cmdstat_{command}")).unwrap_or_default();
    let calls = stats.split(',').find_map(|part| part.strip_prefix("calls="));
    calls.map_or(0, |calls| calls.parse().expect("a number"))
}

/// The processor time that a server needs for the same keys without the library: about 1 ms, or 3 ms where other
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

/// Each viewer reads the page once a second, as the live pages do.
#[tokio::test(flavor = "multi_thread")]
async fn viewers_share_one_look() {
    let scene = Scene::new().await;
    scene.store_many(1_000);
    let site = scene.serve().await;
    let (page, twin) = (site.page("locks"), site.page("api/locks?q=none"));
    assert_strict(&page, &http::get(&page).await.body);
    let first = look_number(&twin).await;
    let before: Vec<_> =
        scene.servers.iter().map(|server| (used(server), calls(server, "scan"))).collect();
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
    let spent: Vec<_> = scene.servers.iter().map(used).collect();
    // What the servers do without viewers, in the same time.
    tokio::time::sleep(IDLE).await;
    let unwatched: Vec<_> = scene.servers.iter().map(used).collect();
    let limit = LOOK_LIMIT.max(5 * plain_read(&scene.servers[0]));
    for (nth, server) in scene.servers.iter().enumerate() {
        let ((time, scans), spent) = (before[nth], spent[nth]);
        let idle = unwatched[nth].saturating_sub(spent).mul_f64(watched.div_duration_f64(IDLE));
        let each = spent.saturating_sub(time).saturating_sub(idle) / looks;
        let scans = (calls(server, "scan") - scans).div_ceil(looks.into());
        println!("a look costs the server {each:.1?} in {scans} steps");
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
    // The first ones are shown while reading goes on.
    crate::harness::eventually("the first are shown", async || {
        let first = http::get(&site.page("")).await;
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
        let scans = calls(server, "scan");
        assert!(scans >= 900, "steps of about a hundred: {scans}");
        assert_eq!(calls(server, "keys"), 0);
        println!("{scans} steps over {KEYS} keys");
    }
}
