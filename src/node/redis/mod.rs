//! A Redis (or Valkey) server as a voting node.
//!
//! | part | where |
//! |---|---|
//! | URL or address, credentials, TLS: where the server is and how to get in | [`NodeAddress`], `endpoint`, `credentials`, `tls` |
//! | names that Sentinels or a Cluster resolve | `directory` |
//! | what all nodes of a manager share: guards, credentials, timeouts | `settings` |
//! | opening a stream; a seam for proxies and simulated networks | [`Connector`] |
//! | what runs on the server | `scripts` and the Lua files beside it |
//! | operation → command, answer → vote | `node` sends; `request`, `encode`, `decode`, `values`, `claim_text`, `server_error` |
//! | bytes out and in | `wire` |
//! | credentials that end: authentication anew on an open connection | `login`, `connection_login` |
//! | connection beside a node's own, asked by one task | `side_connection` |
//! | greeting: authentication, scripts, the server's clock | `handshake` |
//! | probe on connect: kind of server, whether it is fit to vote | `server_traits` |
//! | connection kept up, replaced, batched | `supervisor`, `backoff`, `breaks`, `session` |
//! | the server's time, for the deadlines of commands | `server_clock` |
//! | what `health()` shows; log messages and metrics about the node | `status`, `status_detail`; `status_event`, the crate's `log_budget` |
//! | commands that the server denies to our user | `permissions` |
//! | connection that reports releases, open while a waiter subscribes | `listener` |
//! | a server that is not a node | `single_server` |
//! | which of the set's servers may vote | `enrol` |
//! | what outlives a connection: clock readings, unanswered grants | `reconnect_state` |
//!
//! # One node
//!
//! A node is a sender and a supervisor task. The supervisor connects, loads the scripts, serves, and
//! reconnects with a jittered backoff. While the server is down, operations fail immediately with the
//! reason of the last failure; only the very first connection is awaited.
//!
//! * **Reconnects.** The pauses grow from 20 ms to 1 s, and begin anew only after a connection that
//!   lasted for 1 s (`backoff`). A greeting that succeeds does not reset them: a proxy that closes
//!   each connection right after it would get fifty a second, each with the scripts. So a server gets
//!   about one connection a second, and a connection that was lost once is replaced within 20 ms. The
//!   connection for wake-ups follows the same rule. A report that the server is elsewhere ends a
//!   pause, at most once a second. From the third break within a minute, `health()` has the number
//!   and the latest reason (`breaks`).
//! * **Scripts.** A server that lacks a script gets all of them at once, and the operation again with
//!   the script's text. If it lacks one again before the next health check, only texts are sent until
//!   then. A server that lacks a script whose text it was sent refuses the operation.
//! * **Hangs.** A connection that leaves an operation unanswered for ten node timeouts (at least 200
//!   ms) is replaced. Everything in flight is answered "timed out, may have run". Each connection
//!   sends TIME once a second.
//! * **Refusals.** A server that refuses votes is reported as refusing, and still gets requests for
//!   votes. A refusal may concern one name (a key that we may not access, a fence far ahead): a vote
//!   that counted on the connection within the last second outweighs it. The state ends with the next
//!   vote that counts, or by a health check: for a full server without eviction, when its memory is
//!   below the limit; after BUSY, when the check is answered; after MISCONF, when INFO says that
//!   snapshots and the append-only file are written again; otherwise with the first health check that
//!   is 1 s after the latest refusal.
//! * **Permissions.** `health()` lists the commands that the server is known to deny to its user. A
//!   denied command that NOPERM names is known until an operation of the same kind succeeds, or until
//!   the server is connected. A diagnosis tries each command in one script (`permissions.lua`), on
//!   the key `{prefix}:lock:`, which no name has; what it finds stays listed until the next
//!   diagnosis.
//! * **Credentials that end.** Each connection requests its next login when most of its time has
//!   passed, and sends `AUTH` between operations, in their order (`connection_login`). A refused `AUTH` leaves
//!   the former login in force, so failures are repeated until its end. A RESP2 connection with
//!   subscriptions takes no `AUTH`: the listening one sends UNSUBSCRIBE, AUTH and SUBSCRIBE in one
//!   write, and waiters try once more when the channels are confirmed. Connections that are used from
//!   time to time poll nothing in between, so the callback runs in a task of its own.
//! * **Messages.** Twenty about one node in a row are logged at their level, and then one a minute
//!   (`log_budget`); the rest is at DEBUG. The time for that is not the corrected clock, which
//!   servers can put forward.
//! * **Memory.** Each request states how much memory its answer may take (1 MB for a greeting, 4 MB
//!   for the operations of a write, 64 MB for records and hashes, 64 KB for a message); an answer
//!   that announces more ends the connection.
//!
//! # Eviction (R11)
//!
//! A memory limit with a policy other than `noeviction` is read at each health check (`status`), and is
//! reported at WARN, or takes the vote.
//!
//! Why the crate has connections of its own: `docs/decisions/001-own-connection.md`.

mod backoff;
mod breaks;
mod claim_text;
mod connection_login;
mod connector;
mod credentials;
mod decode;
mod directory;
mod encode;
mod endpoint;
mod enrol;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod handshake;
mod listener;
mod login;
mod node;
mod node_address;
mod permissions;
mod plain_form;
mod reconnect_state;
mod request;
mod scripts;
mod server_clock;
mod server_error;
mod server_traits;
mod session;
mod settings;
mod side_connection;
mod single_server;
mod socket;
mod status;
mod status_detail;
mod status_event;
mod supervisor;
#[cfg(feature = "tls")]
mod tls;
mod tls_options;
mod values;
mod wire;

pub use connector::{Address, Connecting, Connector, IoStream, LookingUp, SocketConnector};
pub use credentials::{AuthToken, Credentials};
pub(crate) use directory::hash_tag;
pub(crate) use endpoint::Endpoint;
pub(crate) use enrol::{Adoption, Layout, Lowering, NodeSet, SetList, count};
pub(crate) use listener::Listener;
pub(crate) use node::RedisNode;
pub use node_address::NodeAddress;
pub(crate) use settings::{Access, AccessOptions, Guards, RedisSettings};
pub use settings::{EvictionGuard, RestartGuard};
#[cfg(feature = "http")]
pub(crate) use single_server::SingleServer;
pub(crate) use supervisor::Supervisor;

#[cfg(feature = "tls")]
pub(crate) use tls::tls_config;
pub use tls_options::TlsOptions;
