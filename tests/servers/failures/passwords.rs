//! Servers that require a login.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use redis::{IntoConnectionInfo, RedisConnectionInfo};
use tower_redlock::{
    Redlock,
    error::Reason,
    node::{
        NodeHealth,
        redis::{AuthToken, Credentials},
    },
};

use crate::fixture::{
    RedisServer, Resp, TempDir, all_vote, eventually_async,
    faults::{
        ANSWER_TIMEOUT, assert_refused, down, manager, only_a_majority_matters, patient, refused,
        settled, works,
    },
    over,
};

const SECRET: &str = "s3cret-0f-the-servers";
const WRONG: &str = "wrong-s3cret";

fn protected() -> RedisServer {
    RedisServer::with(&["--requirepass", SECRET])
}

fn url_with(server: &RedisServer, login: &str) -> String {
    format!("redis://{login}@{}", server.addr())
}

fn is_auth(reason: &Reason) -> bool {
    let shown = format!("{reason} {reason:?}");
    matches!(reason, Reason::Auth(_)) && !shown.contains(SECRET) && !shown.contains(WRONG)
}

#[tokio::test]
async fn refused_login_is_the_reason() {
    let servers = [protected(), protected()];
    for login in [String::new(), format!(":{WRONG}@"), format!("nobody:{SECRET}@")] {
        let url = |server: &RedisServer| format!("redis://{login}{}", server.addr());
        only_a_majority_matters(servers.each_ref().map(url), manager, is_auth).await;
    }
}

#[tokio::test]
async fn password_works_from_url_or_credentials() {
    let server = protected();
    works(&manager([url_with(&server, &format!(":{SECRET}"))])).await;
    works(&manager([url_with(&server, &format!("default:{SECRET}"))])).await;
    for credentials in [Credentials::password(SECRET), Credentials::new("default", SECRET)] {
        works(&patient([server.plain_url()]).credentials(credentials).build().unwrap()).await;
    }
}

#[tokio::test]
async fn connection_info_selects_user_and_database() {
    let server = RedisServer::start();
    server.cli(&["ACL", "SETUSER", "app", "on", &format!(">{SECRET}"), "~*", "&*", "+@all"]);
    let login = RedisConnectionInfo::default().set_username("app").set_password(SECRET);
    let address = (server.addr().ip().to_string(), server.addr().port());
    let info = address.into_connection_info().unwrap().set_redis_settings(login.set_db(3));
    let redlock =
        over(Redlock::builder(), [info]).ttl(ANSWER_TIMEOUT * 10).node_timeout(ANSWER_TIMEOUT);
    let redlock = redlock.build().unwrap();

    works(&redlock).await;

    let clients = server.cli(&["CLIENT", "LIST"]).text();
    let is_ours = |line: &str| line.contains(" db=3 ") && line.contains(" user=app ");
    assert!(clients.lines().any(is_ours), "{clients}");
}

#[tokio::test]
async fn url_credentials_come_before_the_sets() {
    let server = protected();
    let wrong = Credentials::password(WRONG);
    let urls = [url_with(&server, &format!(":{SECRET}"))];
    works(&patient(urls).credentials(wrong).build().unwrap()).await;
    let right = Credentials::password(SECRET);
    let urls = [url_with(&server, &format!(":{WRONG}"))];
    let redlock = patient(urls).credentials(right).build().unwrap();

    settled(&redlock).await;

    assert_refused(&redlock, &[0], is_auth).await;
}

#[tokio::test]
async fn password_with_any_character_works() {
    let password = "s3cret p@ss:w/o?r#d %41 é";
    let server = RedisServer::start();
    let rules = ["ACL", "SETUSER", "app", "on", &format!(">{password}"), "~*", "&*", "+@all"];
    assert_eq!(server.cli(&rules), Resp::Simple("OK".into()));
    let encoded = "s3cret%20p%40ss%3Aw%2Fo%3Fr%23d%20%2541%20%C3%A9";
    works(&manager([url_with(&server, &format!("app:{encoded}"))])).await;
    let credentials = Credentials::new("app", password);
    works(&patient([server.plain_url()]).credentials(credentials).build().unwrap()).await;
}

#[tokio::test]
async fn callback_runs_at_every_connect() {
    let server = RedisServer::start();
    set_password(&server, "s3cret-one");
    let turn = Arc::new(AtomicUsize::new(0));
    let asked = turn.clone();
    let credentials = Credentials::callback(move || {
        let word = ["s3cret-one", "s3cret-two"][asked.load(Ordering::SeqCst)];
        ready(Ok(AuthToken::new("app", word)))
    });
    let redlock = patient([server.plain_url()]).credentials(credentials).build().unwrap();
    works(&redlock).await;

    set_password(&server, "s3cret-two");
    server.cli(&["CLIENT", "KILL", "USER", "app"]);
    eventually_async("the old password is refused", async || is_auth(&down(&redlock, 0).await))
        .await;
    turn.store(1, Ordering::SeqCst);
    all_vote(&redlock).await;
    works(&redlock).await;
}

#[tokio::test]
async fn password_files_are_reread_on_connect() {
    let servers = RedisServer::start_n(2);
    let directory = TempDir::new();
    let file = directory.path().join("password");
    let set = |password: &str| {
        for server in &servers {
            set_password(server, password);
        }
        std::fs::write(&file, format!("{password}\n")).unwrap();
    };
    set("s3cret-one");
    let credentials = Credentials::from_file("app", &file);
    let redlock = patient(servers.iter().map(RedisServer::plain_url))
        .credentials(credentials)
        .build()
        .unwrap();
    all_vote(&redlock).await;
    set("s3cret-two");
    let killed = servers[0].cli(&["CLIENT", "KILL", "USER", "app"]);
    assert_eq!(killed, Resp::Int(1));
    eventually_async("the node has connected again", async || {
        servers[0].cli(&["CLIENT", "KILL", "USER", "app"]) == Resp::Int(1)
    })
    .await;
    all_vote(&redlock).await;
    // A missing file does not affect an open connection; a new connection reports it.
    std::fs::remove_file(&file).unwrap();
    servers[0].cli(&["CLIENT", "KILL", "USER", "app"]);
    eventually_async("the file is the reason", async || {
        let reason = down(&redlock, 0).await;
        let shown = format!("{reason} {reason:?} {:?}", redlock.health());
        assert!(!shown.contains("s3cret"), "{shown}");
        matches!(reason, Reason::Auth(_)) && shown.contains(file.to_str().unwrap())
    })
    .await;
    assert!(redlock.health()[1].is_voting());
    set("three");
    all_vote(&redlock).await;
    works(&redlock).await;
}

#[tokio::test]
async fn repeated_password_is_hidden() {
    // The text of servers whose AUTH was renamed: "unknown command 'AUTH', with args beginning
    // with …".
    let server = RedisServer::with(&["--rename-command", "AUTH", ""]);
    // It repeats the beginning of a long argument.
    for password in [SECRET.into(), SECRET.repeat(20)] {
        let redlock = manager([url_with(&server, &format!("app:{password}"))]);
        settled(&redlock).await;
        let shown = format!("{} {:?} {:?}", refused(&redlock).await, redlock.health(), redlock);
        assert!(!shown.contains(SECRET), "{shown}");
    }
}

#[tokio::test]
async fn full_server_is_not_a_wrong_password() {
    let server = protected();
    server.set_config("maxclients", "1");
    let holder = manager([url_with(&server, &format!(":{SECRET}"))]);
    holder.ready().await.unwrap();
    let redlock = manager([url_with(&server, &format!(":{SECRET}"))]);
    let reason = down(&redlock, 0).await;
    assert!(!matches!(reason, Reason::Auth(_)), "{reason}");
}

#[tokio::test]
async fn panicking_callback_affects_one_node() {
    let servers = RedisServer::start_n(3);
    for server in &servers {
        set_password(server, "s3cret-one");
    }
    let (panics, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let credentials = Credentials::callback({
        let (panics, asked) = (panics.clone(), asked.clone());
        move || {
            asked.fetch_add(1, Ordering::SeqCst);
            assert!(!panics.load(Ordering::SeqCst), "on purpose");
            ready(Ok(AuthToken::new("app", "s3cret-one")))
        }
    });
    let redlock = patient(servers.iter().map(RedisServer::plain_url))
        .credentials(credentials)
        .build()
        .unwrap();
    all_vote(&redlock).await;
    assert_eq!(asked.load(Ordering::SeqCst), 3, "once for each connection");
    panics.store(true, Ordering::SeqCst);
    servers[0].cli(&["CLIENT", "KILL", "USER", "app"]);
    eventually_async("the panic is the reason", async || {
        let reason = down(&redlock, 0).await;
        matches!(reason, Reason::Auth(_)) && reason.to_string().contains("callback panicked")
    })
    .await;
    works(&redlock).await;
    assert!(redlock.health()[1..].iter().all(NodeHealth::is_voting), "{:?}", redlock.health());
    panics.store(false, Ordering::SeqCst);
    all_vote(&redlock).await;
    servers[1].freeze();
    works(&redlock).await;
    servers[1].thaw();
}

fn set_password(server: &RedisServer, password: &str) {
    let word = format!(">{password}");
    let rules = ["ACL", "SETUSER", "app", "on", "resetpass", &word, "~*", "&*", "+@all"];
    assert_eq!(server.cli(&rules), Resp::Simple("OK".into()));
}
