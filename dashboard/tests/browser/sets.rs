//! Two sets of servers, of which one is down: what an operator sees and does.

use tower_redlock::Redlock;
use tower_redlock_dashboard::Dashboard;

use crate::{
    fixture::{Site, everything, with},
    support::{RedisServer, all_vote, over, patient, urls},
    web::{Browser, html::assert_strict, http},
};

/// Two sets of three servers, with the same names of nodes in both.
struct TwoSets {
    servers: Vec<RedisServer>,
    redlock: Redlock,
}

impl TwoSets {
    async fn new() -> Self {
        let servers = RedisServer::start_n(6);
        let redlock = manager(&servers, "web-1").await;
        Self { servers, redlock }
    }

    /// Kills the servers of the second set.
    fn kill(&mut self) {
        self.servers[3..].iter_mut().for_each(RedisServer::kill);
    }

    fn restart(&mut self) {
        self.servers[3..].iter_mut().for_each(RedisServer::restart);
    }

    /// Returns a name of a lock in the set with this number, from 1.
    fn lock(&self, number: usize) -> String {
        let mut names = (0..).map(|nth| format!("invoice-{nth}"));
        names.find(|name| self.redlock.set_index(name) + 1 == number).unwrap()
    }
}

async fn manager(servers: &[RedisServer], owner: &str) -> Redlock {
    let set = |servers| over(patient().owner(owner), urls(servers));
    let (one, two) = servers.split_at(3);
    let redlock = Redlock::sharded([set(one), set(two)]).unwrap();
    all_vote(&redlock).await;
    redlock
}

/// The selector of a part of a set on a page.
fn of_set(number: usize, part: &str) -> String {
    format!("div.set[data-set=\"{number}\"] {part}")
}

const WORKS: &str = "Names of set 2 of 2 can't be locked at present; names of set 1 of 2 can.";

#[tokio::test(flavor = "multi_thread")]
async fn operator_finds_the_set_that_is_down() {
    let mut fixture = TwoSets::new().await;
    let other = manager(&fixture.servers, "worker-7").await;
    let site = Site::of(Dashboard::new(fixture.redlock.clone()).access(everything)).await;
    let (up, down) = (fixture.lock(1), fixture.lock(2));
    let _held = [other.lock(up.as_str()).await.unwrap(), other.lock(down.as_str()).await.unwrap()];
    let browser = Browser::start().await;
    browser.open_with(&site.page("?refresh=1"), &of_set(2, "[data-server]")).await;
    browser.wait_text("#state h2", "All is well").await;
    browser.wait_text("#works", "Names of all sets can be locked.").await;
    assert_eq!(browser.count("[data-server][data-state=voting]").await, 6);

    fixture.kill();

    browser.wait_text("#state h2", "Something is wrong").await;
    browser.wait_text("#works", WORKS).await;
    browser.wait_text(&of_set(2, ".verdict"), "0 of 3 nodes vote, 2 are needed").await;
    browser.wait_text(&of_set(2, "[data-advice=down]"), "To do: ").await;
    assert!(!browser.has(&of_set(1, "[data-advice=down]")).await);
    // Another interval leaves the rest of an address as it is.
    browser.choose("#refresh", "2").await;
    let links = browser.attributes(&of_set(2, "h3 a"), "href").await;
    assert_eq!(links, ["nodes?refresh=2#set-2"]);
    browser.click(&of_set(2, "h3 a")).await;
    browser.wait_url("/nodes?refresh=2#set-2").await;
    assert_eq!(browser.texts(".set h3").await, ["Set 1 of 2", "Set 2 of 2"]);
    assert_eq!(browser.count(&of_set(1, "tr[data-state=voting]")).await, 3);
    assert_eq!(browser.count(&of_set(2, "tr[data-state=down]")).await, 3);

    // What the other set keeps is still listed.
    let row = with("data-lock", &up);
    browser.open_with(&site.page("locks?refresh=1"), &row).await;
    browser.wait_text(&row, "set 1 of 2").await;
    browser.wait_text("#fleet-locks .trouble", "set 2 of 2: ").await;
    browser.click(&format!("{row} a")).await;
    browser.wait_text("#set [data-set=\"1\"]", "3 of 3 vote.").await;
    browser.open(&site.page(&format!("lock?name={down}&refresh=1"))).await;
    browser.wait_text("#set [data-set=\"2\"]", "it can't be locked at present").await;
    browser.click("#set > p a").await;
    browser.wait_url("/nodes?refresh=1#set-2").await;

    fixture.restart();

    browser.wait_text("#works", "Names of all sets can be locked.").await;
    browser.assert_no_errors(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_sets_are_accessible() {
    let mut fixture = TwoSets::new().await;
    let site = Site::of(Dashboard::new(fixture.redlock.clone()).access(everything)).await;
    let (up, down) = (fixture.lock(1), fixture.lock(2));
    let _held = fixture.redlock.lock(up.as_str()).await.unwrap();
    fixture.kill();
    let browser = Browser::start().await;
    browser
        .open_with(&site.page("nodes?refresh=1"), &of_set(2, "[data-verdict='no quorum']"))
        .await;
    let pages = [
        ("", "#works".to_owned()),
        ("nodes", "#works".to_owned()),
        ("locks", with("data-lock", &up)),
        (&*format!("lock?name={down}"), "#set".to_owned()),
        (&*format!("job?name={down}"), "#set".to_owned()),
        (&*format!("once?key={down}"), "#set".to_owned()),
        (&*format!("pause?name={down}"), "main [data-set]".to_owned()),
    ];
    for (page, part) in &pages {
        assert_strict(page, &http::get(&site.page(page)).await.body);
        let name = page.split('?').next().unwrap_or_default();
        let url = site.page(page);
        browser.assert_usable_on_screens(&url, part, &format!("sets-{name}")).await;
    }
    browser.assert_no_errors(&[]).await;
}
