//! A PostgreSQL of a test's own.

use std::{
    env, fs,
    net::{Ipv4Addr, SocketAddr},
    os::unix::fs::{MetadataExt, chown},
    path::{Path, PathBuf},
    process::Command,
};

use rustix::process::{Signal, geteuid};
use sqlx::{
    PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use tower_redlock_sqlx::create_tables;

use crate::support::{Port, Process, TempDir, eventually, eventually_async, unused_port};

/// A database cluster on a port of its own. It is stopped and deleted when it is dropped.
pub(crate) struct Cluster {
    process: Process,
    port: Port,
    _dir: TempDir,
}

impl Cluster {
    /// Starts it, with the crate's tables, and 100 on account 1.
    pub(crate) async fn start() -> (Self, PgPool) {
        let dir = TempDir::new();
        let data = dir.path().join("data");
        let user = Account::of_servers();
        user.own(dir.path());
        user.run(&[
            "initdb",
            "-D",
            text(&data),
            "-U",
            "postgres",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--no-sync",
        ]);
        let (process, port) = serve(&user, dir.path(), &data).await;
        let cluster = Self { process, port, _dir: dir };
        let pool = cluster.pool().await;
        create_tables(&pool).await.unwrap();
        sqlx::raw_sql(
            "CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint NOT NULL); \
             INSERT INTO accounts VALUES (1, 100)",
        )
        .execute(&pool)
        .await
        .unwrap();
        (cluster, pool)
    }

    /// The address, for another process.
    pub(crate) fn url(&self) -> String {
        url(&self.port)
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port.number()).into()
    }

    pub(crate) fn options(&self) -> PgConnectOptions {
        self.url().parse().unwrap()
    }

    pub(crate) async fn pool(&self) -> PgPool {
        PgPoolOptions::new().max_connections(8).connect_with(self.options()).await.unwrap()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Unlike a kill, it lets the server remove its shared memory.
        let process = &mut self.process;
        if !process.has_ended() {
            process.signal(Signal::QUIT);
        }
        eventually("PostgreSQL ends", || process.has_ended());
    }
}

pub(crate) async fn balance(pool: &PgPool) -> i64 {
    sqlx::query_scalar("SELECT balance FROM accounts WHERE id = 1").fetch_one(pool).await.unwrap()
}

/// Waits until this number of sessions waits for a row or a transaction of another one.
pub(crate) async fn waiting_sessions(pool: &PgPool, count: i64) {
    eventually_async("sessions wait for locks", async || {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        sqlx::query_scalar::<_, i64>(waiting).fetch_one(pool).await.unwrap() == count
    })
    .await;
}

/// Starts the server on a free port, and on another one if a program takes that first.
async fn serve(user: &Account, dir: &Path, data: &Path) -> (Process, Port) {
    let log = dir.join("log");
    for _ in 0..3 {
        let port = unused_port();
        let number = port.number().to_string();
        let settings = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off"];
        let mut arguments = vec!["postgres", "-D", text(data), "-p", &number];
        arguments.extend(settings.iter().flat_map(|setting| ["-c", setting]));
        let mut process = Process::spawn(&user.command(&arguments), &log);
        let options: PgConnectOptions = url(&port).parse().unwrap();
        let mut answers = false;
        eventually_async("PostgreSQL answers, or ends", async || {
            answers = PgPoolOptions::new().connect_with(options.clone()).await.is_ok();
            answers || process.has_ended()
        })
        .await;
        if answers {
            return (process, port);
        }
    }
    panic!("PostgreSQL does not start: {}", fs::read_to_string(log).unwrap_or_default());
}

fn url(port: &Port) -> String {
    format!("postgres://postgres@127.0.0.1:{}/postgres", port.number())
}

/// The user that runs the server: PostgreSQL refuses to run as root.
struct Account(Option<(u32, u32)>);

impl Account {
    fn of_servers() -> Self {
        if !geteuid().is_root() {
            return Self(None);
        }
        let users = fs::read_to_string("/etc/passwd").expect("the system has users");
        let user = users.lines().find(|line| line.starts_with("postgres:"));
        let mut fields =
            user.expect("the package has created the user postgres").split(':').skip(2);
        let mut number = || fields.next().and_then(|field| field.parse().ok()).expect("a number");
        Self(Some((number(), number())))
    }

    fn own(&self, dir: &Path) {
        if let Some((user, group)) = self.0 {
            chown(dir, Some(user), Some(group)).expect("root may give a directory away");
            assert_eq!(fs::metadata(dir).unwrap().uid(), user);
        }
    }

    fn command(&self, arguments: &[&str]) -> Vec<String> {
        let mut command = Vec::new();
        if let Some((user, group)) = self.0 {
            let ids = [format!("--reuid={user}"), format!("--regid={group}")];
            command.extend(["setpriv".into(), "--clear-groups".into()].into_iter().chain(ids));
        }
        command.push(text(&program(arguments[0])).into());
        command.extend(arguments[1..].iter().map(|argument| String::from(*argument)));
        command
    }

    fn run(&self, arguments: &[&str]) {
        let command = self.command(arguments);
        let output = Command::new(&command[0]).args(&command[1..]).current_dir("/").output();
        let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {error}");
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// Finds a program of PostgreSQL in PATH, or where Debian has it: of several versions, the newest.
fn program(name: &str) -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<_> = env::split_paths(&path).collect();
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<_> = versions.map(|version| version.path().join("bin")).collect();
    versions.sort();
    folders.extend(versions.into_iter().rev());
    let found = folders.into_iter().map(|folder| folder.join(name)).find(|path| path.is_file());
    found.unwrap_or_else(|| {
        panic!("{name} was not found: run scripts/test, or apt-get install postgresql")
    })
}
