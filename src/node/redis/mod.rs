//! A Redis (or Valkey) server as a voting node.
//!
//! | part | where |
//! |---|---|
//! | URL or address, credentials, TLS: where the server is and how to get in | [`NodeAddress`], `endpoint`, `credentials`, `tls` |
//! | names that Sentinels or a Cluster resolve | `directory` |
//! | opening a stream; a seam for proxies and simulated networks | [`Connector`] |
//! | what runs on the server | `scripts` and the Lua files beside it |
//! | operation → command, answer → vote | `request`, `encode`, `decode` |
//! | bytes out and in | `wire` |
//! | credentials that end: authentication anew on an open connection | `login` |
//! | connection beside a node's own, asked by one task | `side_connection` |
//! | greeting: authentication, scripts, the server's clock | `handshake` |
//! | probe on connect: kind of server, whether it is fit to vote | `server_traits` |
//! | connection kept up, replaced, batched | `supervisor`, `backoff`, `session` |
//! | commands that the server denies to our user | `permissions` |
//! | connection that reports releases, open while a waiter subscribes | `listener` |
//! | a server that is no node | `single_server` |
//! | which of the set's servers may vote | `enrol` |
//! | what outlives a connection: clock readings, unanswered grants | `reconnect_state` |

mod backoff;
mod breaks;
mod claim_text;
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
mod log_budget;
mod login;
mod node;
mod node_address;
mod permissions;
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
mod status;
mod status_detail;
mod status_event;
mod supervisor;
#[cfg(feature = "tls")]
mod tls;
mod tls_options;
mod wire;

pub use connector::{Address, Connecting, Connector, IoStream, LookingUp, SocketConnector};
pub use credentials::{AuthToken, Credentials};
pub(crate) use directory::hash_tag;
pub(crate) use endpoint::Endpoint;
pub(crate) use enrol::{Layout, Lowering, NodeSet, adopt, count};
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
