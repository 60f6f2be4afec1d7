//! Nodes that stop voting and return.

use crate::fixture::served;

#[tokio::test(flavor = "multi_thread")]
async fn killed_server_turns_its_row() {
    let (mut fixture, site, browser) = served().await;
    browser.open_with(&site.page("nodes"), "tr[data-node]").await;
    assert_eq!(browser.count("tr[data-node][data-state=voting]").await, 3);
    browser.choose("#refresh", "1").await;
    fixture.servers[1].kill();
    browser.wait_for("tr[data-node=node-2]:not([data-state=voting])").await;
    browser.wait_for("[data-verdict=degraded]").await;
    assert_eq!(browser.count("tr[data-node][data-state=voting]").await, 2);
    browser.wait_text(".advice", "node-2").await;
    browser.screenshot("node-down").await;
    // All that happens to a node is an event.
    browser.open(&site.page("events")).await;
    browser.wait_text("li[data-event=node_out]", "node-2").await;
    browser.script("document.body.dataset.same = 'page'").await;
    fixture.servers[1].restart();
    browser.wait_text("li[data-event=node_back]", "node-2").await;
    assert!(browser.has("body[data-same=page]").await, "the stream brings it");
    browser.open(&site.page("nodes?refresh=1")).await;
    browser.wait_for("tr[data-node=node-2][data-state=voting]").await;
    browser.assert_no_errors(&[]).await;
}
