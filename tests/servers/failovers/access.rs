//! Credentials, permissions and TLS of nodes that are located by Sentinels or a Cluster.

use tower_redlock::{Redlock, diagnosis::NodeDiagnosis, node::redis::RestartGuard};

use crate::fixture::{
    Cluster, Feature, RedisServer, SERVICE, Sentinel, Sentinels, acl, all_vote, eventually_async,
    guard::{guarded, quick, works},
    has, in_time, over, patient,
};

use super::{down_for, set_of};
use crate::tls;

/// Uses the documented rules on every server.
#[tokio::test]
async fn documented_rules_suffice_with_sentinels() {
    let (sentinels, fixed) = (Sentinels::start(), RedisServer::start_n(2));
    let (user, password) = (acl::USER, acl::password());
    let login = format!(">{password}");
    let rules = [vec!["ACL", "SETUSER", user, "on", &login], acl::sentinel_rules()].concat();
    sentinels.order(&rules);
    let url = |password: &str| {
        let url = sentinels
            .url()
            .replace("redis+sentinel://", &format!("redis+sentinel://{user}:{password}@"));
        format!("{url}/2?sentinel_user={user}&sentinel_pass={password}")
    };
    let redlock = guarded(quick(), set_of(url(password), &fixed)).build().unwrap();
    in_time(all_vote(&redlock)).await;
    works(&redlock).await;
    let [master, _] = &sentinels.servers;
    let clients = master.cli(&["CLIENT", "LIST"]).text();
    assert!(
        clients.lines().any(|it| it.contains(&format!("user={user} ")) && it.contains(" db=2 ")),
        "{clients}"
    );
    assert!(master.info("keyspace", "db2").is_some(), "its keys are in the database of the URL");
    let refused = over(patient(), [url("wr0ng")]).build().unwrap();
    is_down_for(&refused, "WRONGPASS").await;
}

#[tokio::test]
async fn denied_question_is_named() {
    let sentinels = Sentinels::start();
    let (user, password) = (acl::USER, acl::password());

    for lacking in ["+sentinel|master", "+sentinel|get-master-addr-by-name"] {
        let login = format!(">{password}");
        let mut rules =
            [vec!["ACL", "SETUSER", user, "reset", "on", &login], acl::sentinel_rules()].concat();
        rules.retain(|rule| *rule != lacking);
        sentinels.order(&rules);
        let url = format!("{}?sentinel_user={user}&sentinel_pass={password}", sentinels.url());
        is_down_for(&over(patient(), [url]).build().unwrap(), "permission denied").await;
    }
}

#[tokio::test]
async fn documented_rules_suffice_in_cluster() {
    if !has(&[Feature::ClusterPort]) {
        return;
    }
    let (cluster, fixed) = (Cluster::start(), RedisServer::start_n(2));
    let rules = acl::cluster_rules();
    let rules: Vec<_> = rules.iter().map(String::as_str).collect();
    cluster.servers.iter().chain(&fixed).for_each(|server| server.set_rules(&rules));
    let url = cluster
        .url()
        .replace("redis+cluster://", &acl::login().replace("redis://", "redis+cluster://"));
    let url = format!("{url}?hosts=127.0.0.1");
    let urls = [vec![url], fixed.iter().map(RedisServer::url).collect()].concat();
    let redlock = guarded(quick().key_prefix("{redlock}"), urls).build().unwrap();
    in_time(all_vote(&redlock)).await;
    works(&redlock).await;
    for NodeDiagnosis { health, .. } in redlock.diagnosis().await.nodes {
        assert!(health.denied.is_empty(), "{}: {:?}", health.name, health.denied);
    }
    let lacking: Vec<_> = rules.into_iter().filter(|rule| *rule != "+cluster|nodes").collect();
    cluster.servers.iter().for_each(|server| server.set_rules(&lacking));
    let url = cluster
        .url()
        .replace("redis+cluster://", &acl::login().replace("redis://", "redis+cluster://"));
    let refused = over(patient().key_prefix("{redlock}"), [url]).build().unwrap();
    is_down_for(&refused, "permission denied").await;
}

/// A Sentinel that names another server does not get a password sent to it.
#[tokio::test]
async fn named_server_has_to_be_allowed() {
    let server = RedisServer::start();
    let sentinel = Sentinel::start(server.addr(), None, "");
    let node = |hosts: &str| {
        let url = format!("redis+sentinel://:s3cret@{}/{SERVICE}?hosts={hosts}", sentinel.addr());
        over(patient(), [url]).build().unwrap()
    };
    let refused = node("*.locks.internal,10.0.*");
    is_down_for(&refused, "`hosts` in the URL does not allow").await;
    let clients = server.cli(&["CLIENT", "LIST"]).text();
    let strangers = clients.lines().filter(|it| !it.contains("name=sentinel")).count();
    assert_eq!(strangers, 1, "only this command: {clients}");
    drop(refused);
    // The server has no password, so it is reached and refuses this one.
    is_down_for(&node("*.locks.internal,127.0.0.*"), "AUTH").await;
}

/// Sentinels and the master accept TLS only.
#[tokio::test]
async fn sentinels_speak_tls() {
    let Some((_server, port)) = tls::server("no") else { return };
    let (sentinel, sentinel_port) = tls::sentinel(port.addr());
    let url = |port: u16| format!("rediss+sentinel://localhost:{port}/{SERVICE}");
    let node = |port| {
        patient()
            .tls(tls::trusting(tls::CA))
            .named_node("locks", url(port))
            .restart_guard(RestartGuard::Off)
    };
    let redlock = node(sentinel_port.number()).build().unwrap();
    in_time(all_vote(&redlock)).await;
    works(&redlock).await;
    let plain = node(sentinel.addr().port()).build().unwrap();

    is_down_for(&plain, "no Sentinel reported its address").await;
}

async fn is_down_for(redlock: &Redlock, words: &str) {
    eventually_async("the node is down for it", async || {
        down_for(redlock).is_some_and(|reason| reason.to_string().contains(words))
    })
    .await;
}
