//! A former master that still answers some clients.

use tower_redlock::error::Reason;

use crate::fixture::{
    Proxy, RedisServer, Sentinels, all_vote,
    guard::{guarded, quick, reason, refused, taken, votes},
};

use super::{NAMED, leads_to};

/// One client is cut off from the Sentinels and stays with the former master, which still considers
/// itself the master. The other client follows the Sentinels. Each has two nodes of three, and only
/// the node that failed over is in both.
#[tokio::test]
async fn former_master_makes_no_two_holders() {
    let (sentinels, fixed) = (Sentinels::start(), RedisServer::start_n(2));
    let views: Vec<_> = sentinels.addresses().into_iter().map(Proxy::start).collect();
    let links: Vec<_> = fixed.iter().map(|server| Proxy::start(server.addr())).collect();
    let stays = Sentinels::url_over(views.iter().map(Proxy::addr));
    let stays = [stays, links[0].url(), fixed[1].plain_url()];
    let stays = guarded(quick(), stays).build().unwrap();
    let follows = [sentinels.url(), fixed[0].plain_url(), links[1].url()];
    let follows = guarded(quick(), follows).build().unwrap();
    all_vote(&stays).await;
    all_vote(&follows).await;

    views.iter().for_each(Proxy::cut);
    let [former, promoted] = &sentinels.servers;
    former.freeze();
    sentinels.await_master(1);
    leads_to(&follows, promoted).await;
    votes(&follows, NAMED).await;
    links.iter().for_each(Proxy::cut);
    let held = taken(&follows, "x").await;
    former.thaw();
    leads_to(&stays, former).await;
    assert_eq!(former.info("replication", "role").as_deref(), Some("master"));
    let refusal = refused(&stays, "x").await;
    assert!(held.is_valid());
    let reason = reason(&refusal, NAMED);
    assert!(matches!(reason, Reason::Displaced | Reason::NamesDiffer), "{reason}");
}
