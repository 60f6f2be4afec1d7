//! Servers, the manager of the process that serves the dashboard, and managers of other processes.

use std::time::Duration;

use axum::Router;
use tower_redlock::{Redlock, RedlockBuilder, SchedulerHandle};
use tower_redlock_dashboard::{Access, Authorize, Dashboard};

use crate::{
    support::{RedisServer, connected, over, patient, urls},
    web::{Browser, Served},
};

/// The path at which most tests mount the dashboard.
pub(crate) const MOUNT: &str = "/admin/locks";

pub(crate) struct Fixture {
    pub(crate) servers: Vec<RedisServer>,
    /// Of the process that serves the dashboard.
    pub(crate) redlock: Redlock,
}

/// Starts servers, serves a dashboard over them to a viewer who may do everything, and starts a browser.
pub(crate) async fn served() -> (Fixture, Site, Browser) {
    let fixture = Fixture::new().await;
    let site = fixture.serve().await;
    (fixture, site, Browser::start().await)
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        let servers = RedisServer::start_n(3);
        let redlock = connected(builder(&servers, "web-1")).await;
        Self { servers, redlock }
    }

    /// The manager of another process of the fleet.
    pub(crate) async fn process(&self, owner: &str) -> Redlock {
        connected(builder(&self.servers, owner)).await
    }

    /// The same with locks that are renewed every three seconds or so, and outlive pauses of a busy machine.
    pub(crate) async fn renewing(&self, owner: &str) -> Redlock {
        connected(builder(&self.servers, owner).ttl(Duration::from_secs(9))).await
    }

    /// The dashboard of a viewer who may do everything.
    pub(crate) fn dashboard(&self) -> Dashboard {
        Dashboard::new(self.redlock.clone()).access(everything)
    }

    /// Serves that dashboard.
    pub(crate) async fn serve(&self) -> Site {
        Site::of(self.dashboard()).await
    }

    pub(crate) async fn serve_jobs(&self, scheduler: SchedulerHandle) -> Site {
        Site::of(self.dashboard().jobs(scheduler)).await
    }

    /// Serves the dashboard to viewers with this access.
    pub(crate) async fn serve_to(&self, access: impl Authorize) -> Site {
        Site::of(Dashboard::new(self.redlock.clone()).access(access)).await
    }

    /// Stores a key of a lock as its holder does, on one of the servers.
    pub(crate) fn store(&self, server: usize, name: &str, owner: &str, token: u64) {
        // Held since 2020, under any nonce.
        let value = format!("{token:032x} {token} 1600000000000 {owner}");
        let key = format!("redlock:lock:{name}");
        self.servers[server].cli(&["SET", &key, &value, "PX", "600000"]);
    }

    /// Stores many locks on every server: `lock:00000` and so on.
    pub(crate) fn store_many(&self, count: usize) {
        let script = "for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do \
             redis.call('SET', string.format('redlock:lock:lock:%05d', i), \
             string.format('%032x %d 1600000000000 worker-%d', i + 1, i + 1, i % 7), 'PX', 6000000) end";
        for server in &self.servers {
            // In steps that are far shorter than a node's timeout.
            for first in (0..count).step_by(1_000) {
                let last = (first + 1_000).min(count) - 1;
                server.cli(&["EVAL", script, "0", &first.to_string(), &last.to_string()]);
            }
        }
    }
}

fn builder(servers: &[RedisServer], owner: &str) -> RedlockBuilder {
    over(patient().owner(owner), urls(servers))
}

pub(crate) fn everything(_: &http::request::Parts) -> tower_redlock_dashboard::Viewer {
    Access::All.by("ada")
}

/// A dashboard that is mounted at [`MOUNT`] next to other routes.
pub(crate) struct Site(Served);

impl Site {
    pub(crate) async fn of(dashboard: Dashboard) -> Self {
        let router = Router::new()
            .route("/", axum::routing::get(async || "the service itself"))
            .nest_service(MOUNT, dashboard);
        Self(Served::router(router).await)
    }

    /// The address of a page, such as `nodes`.
    pub(crate) fn page(&self, page: &str) -> String {
        self.0.at(&format!("{MOUNT}/{page}"))
    }

    /// The scheme, host and port.
    pub(crate) fn origin(&self) -> &str {
        self.0.url()
    }
}

/// A selector of an element with this attribute.
pub(crate) fn with(attribute: &str, value: &str) -> String {
    format!("[{attribute}=\"{}\"]", value.replace('\\', "\\\\").replace('"', "\\\""))
}
