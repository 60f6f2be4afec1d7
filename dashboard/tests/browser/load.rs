//! Many viewers, many locks: what they cost the servers, and how long the pages are.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use crate::{
    harness::{html::assert_strict, http},
    scene::Scene,
    support::{RedisServer, Resp},
};

const VIEWERS: usize = 100;
/// Maximum length of a page, in bytes.
const PAGE_LIMIT: usize = 200_000;

/// The duration of the watch, from `DASHBOARD_LOAD_SECONDS`; by default 60.
fn watch() -> Duration {
    let given = std::env::var("DASHBOARD_LOAD_SECONDS").ok();
    let seconds = given.map_or(60, |given| given.parse().expect("a number of seconds"));
    Duration::from_secs(seconds)
}

/// The calls of commands so far, and the time that the server spent on them.
fn commands(server: &RedisServer) -> (u64, Duration) {
    let stats = server.cli(&["INFO", "commandstats"]).text();
    let number = |line: &str, name: &str| -> u64 {
        let value = line.split([':', ',']).find_map(|part| part.strip_prefix(name));
        value.and_then(|value| value.parse().ok()).unwrap_or(0)
    };
    // Of what a look sends; those inside of scripts are counted with the script as well.
    let lines = stats.lines().filter(|line| line.starts_with("cmdstat_"));
    let outer = lines.filter(|line| {
        ["scan", "eval", "hscan", "hget"]
            .iter()
            .any(|name| line["cmdstat_".len()..].starts_with(name))
    });
    outer.fold((0, Duration::ZERO), |(calls, time), line| {
        (calls + number(line, "calls="), time + Duration::from_micros(number(line, "usec=")))
    })
}

#[derive(Debug, Default)]
struct Seen {
    looks: BTreeSet<u64>,
    pages: usize,
    longest: usize,
    slowest: Duration,
}

/// Each viewer reads the page once a second, as the live pages do.
#[tokio::test(flavor = "multi_thread")]
async fn viewers_share_one_look() {
    let scene = Scene::new().await;
    scene.store_many(1_000);
    let site = scene.serve().await;
    let (page, twin) = (site.page("locks"), site.page("api/locks?q=none"));
    assert_strict(&page, &http::get(&page).await.body);
    let before: Vec<_> = scene.servers.iter().map(commands).collect();
    let number = |twin: &serde_json::Value| twin["fleet"]["look"]["number"].as_u64().unwrap();
    let first = number(&http::get(&twin).await.json());
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
    let seconds = begun.elapsed().as_secs_f64();
    let last = number(&http::get(&twin).await.json());
    let looks = last - first + 1;
    let seen = seen.lock().unwrap();
    println!(
        "{VIEWERS} viewers, 1,000 locks: {looks} looks in {seconds:.1} s, {} pages of at most {} bytes, the slowest \
         within {:.0?}",
        seen.pages, seen.longest, seen.slowest
    );
    for (server, (calls, time)) in scene.servers.iter().zip(before) {
        let after = commands(server);
        let (calls, time) = (after.0 - calls, after.1 - time);
        let each = time.div_f64(looks as f64);
        println!("a look costs the server {each:.1?} in {} commands", calls / looks);
        assert!(each < Duration::from_millis(5), "a look costs a server {each:?}");
    }
    assert!(looks as f64 <= seconds + 2.0, "{looks} looks in {seconds} s");
    assert!(looks >= 2, "the looks go on");
    assert!(seen.longest < PAGE_LIMIT, "{} bytes", seen.longest);
    assert!(seen.pages >= VIEWERS, "each viewer saw a page");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_keys_are_read_in_steps() {
    const KEYS: usize = 100_000;
    let scene = Scene::new().await;
    scene.store_many(KEYS);
    let site = scene.serve().await;
    let calls = |server: &RedisServer, name: &str| -> u64 {
        let stats = server.cli(&["INFO", "commandstats"]).text();
        let line = stats
            .lines()
            .find(|line| line.starts_with(&format!("cmdstat_{name}:")))
            .unwrap_or_default();
        let calls = line.split([':', ',']).find_map(|part| part.strip_prefix("calls="));
        calls.and_then(|calls| calls.parse().ok()).unwrap_or(0)
    };
    // The first ones are shown while reading goes on.
    let first = http::get(&site.page("")).await;
    assert_strict("locks", &first.body);
    assert!(
        first.body.contains("data-lock=") && first.body.len() < PAGE_LIMIT,
        "{}",
        first.body.len()
    );
    crate::harness::eventually("all are read", async || {
        let twin = http::get(&site.page("api/locks?q=lock:99999")).await.json();
        twin["fleet"]["look"]["partial"] == false && twin["fleet"]["found"] == 1
    })
    .await;
    let last = http::get(&site.page("locks?page=500")).await;
    assert_strict("locks", &last.body);
    assert!(last.body.contains("lock:99999"), "{}", last.body);
    assert!(last.body.len() < PAGE_LIMIT, "{}", last.body.len());
    for server in &scene.servers {
        let scans = calls(server, "scan");
        assert!(scans >= 900, "steps of about a hundred: {scans}");
        assert_eq!(calls(server, "keys"), 0);
        let Resp::Array(slow) = server.cli(&["SLOWLOG", "GET", "100"]) else { panic!("a list") };
        println!("{scans} steps; {} commands in the slow log", slow.len());
    }
}
