//! Web pages that show and steer the locks and jobs of [`tower_redlock`], served from inside the service that
//! uses them: the holder of each lock and since when, the servers that vote and why others do not, where each job
//! runs, and the last events.
//!
//! [`Dashboard`] is a tower `Service` over HTTP. Mount it next to your own routes, or serve it alone:
//!
//! ```
//! use axum::Router;
//! use tower_redlock::Redlock;
//! use tower_redlock_dashboard::{Access, BasicAuth, Dashboard};
//!
//! # let redlock = Redlock::embedded();
//! # let password = "from your secrets";
//! let access = BasicAuth::new("locks").user("ann", password, Access::All);
//! let dashboard = Dashboard::new(redlock).access(access);
//! let app: Router = Router::new().nest_service("/admin/locks", dashboard);
//! ```
//!
//! # Pages
//!
//! | page | what it shows |
//! |---|---|
//! | Overview | whether all is well; requests of the last 15 minutes, contended names, jobs that are late, failed or paused, or missed a tick |
//! | Locks | every lock of the fleet: owner, since when, until when, fencing token, on how many nodes; the requests of this process that wait |
//! | Nodes | which servers vote, why the others do not, and what to do |
//! | Jobs | schedule, next ticks, where a job runs, who paused it, its last 50 runs, a calendar of the year; see [`Dashboard::jobs`] |
//! | Leaders | who leads, and since when |
//! | Once | what the servers know of a key: done, in progress, unknown |
//! | Events | the last 1,000 events of this process, live |
//!
//! Over several sets of servers ([`Redlock::sharded`](tower_redlock::Redlock::sharded)), nodes are grouped by set, and
//! each name is shown with its set. A set that does not answer hides nothing of the others.
//!
//! Each page says what comes from the servers, and so holds for the whole fleet, and what only this process
//! knows. Each has a JSON twin below `api/`: `api/locks` for `locks`, with the same parameters. All links are
//! relative, so the pages work under any path, also behind a proxy that strips a prefix; the address of the
//! first one has to end with a slash. With the feature `axum` (default) a router that nests the dashboard
//! redirects there, also below a layer that takes the slash away (`NormalizePath` of tower-http).
//!
//! Everything works without JavaScript. With it, the parts of a page that change are refreshed at an interval
//! that the viewer picks.
//!
//! # Access
//!
//! No viewer has access until [`Dashboard::access`] is set; see [`Authorize`]. Actions that a viewer may not do are
//! not offered, and refused. A viewer with [`Access::ReadOnly`] sees the names of locks, owners and jobs, and the
//! errors of runs.
//!
//! A form acts once, also if it is sent twice to one process. A POST from another origin is refused, by
//! `Sec-Fetch-Site`, or where a browser does not send that, by comparing `Origin` with `Host`. A GET that a page of
//! another origin causes in the background is refused by `Sec-Fetch-Site`. A GET writes nothing to the servers. There
//! are no cookies.
//! Pages can't be framed, run no inline script, and load nothing from elsewhere. Texts from the servers are escaped.
//!
//! # Load
//!
//! All viewers of a process share what is read from the servers, at most once a second. A server spends at most a tenth
//! of its time on it: names are read by SCAN in steps of a hundred, with pauses, and so are the jobs of the page that
//! is shown, in steps of fifty. Each page says how old its data is. Nothing is read without a viewer. At most
//! 100,000 locks and 1,000 jobs are listed; a page says if there are more.
//!
//! # Memory
//!
//! A dashboard records the counts of the last 15 minutes, the names that requests waited for, and the holders of
//! locks of late, in at most 1,000,000 bytes. The figures are those of this process, from [`Dashboard::new`] on.
//!
//! # Shutdown
//!
//! A viewer follows the events by a response that lasts 20 s. [`Dashboard::end_streams`] ends it where a graceful
//! shutdown begins.

mod access;
mod actions;
mod assets;
mod cache;
mod dashboard;
mod events;
mod pages;
mod paging;
mod problem;
mod query;
mod recent;
mod reply;
mod router;
mod set_place;
mod site;
#[cfg(test)]
mod tests;
mod text;

pub use access::{Access, Action, Actions, Authorize, BasicAuth, Viewer, by_address, by_extension};
pub use dashboard::{Dashboard, DashboardFuture};
pub use reply::DashboardBody;
