//! The forms in which a node's address can be given.

use std::{borrow::Cow, fmt};

#[cfg(feature = "redis-1")]
use ::redis::{Client, ConnectionInfo};
use ::redis::{ConnectionAddr, RedisConnectionInfo};

/// The address of a node's server, and how to log in there.
///
/// [`RedlockBuilder::nodes`](crate::RedlockBuilder::nodes) takes everything that converts into it:
///
/// | from | notes |
/// |---|---|
/// | `&str`, `String` | all forms of URLs, those of Sentinels and Clusters included |
/// | `(host, port)` | database 0; [credentials] by the builder |
///
/// and with the feature `redis-1`, from types of the `redis` crate, version 1:
///
/// | from | notes |
/// |---|---|
/// | `redis::ConnectionInfo` | address, TLS, user, password and database count |
/// | `redis::Client` | the `ConnectionInfo` that it was opened with |
/// | `redis::ConnectionAddr` | database 0; [credentials] by the builder |
///
/// # Why a live connection is not accepted
///
/// A connection of the `redis` crate hides events that a vote depends on. It may reconnect on its
/// own, possibly to another server or to a restarted one, and the release of a lock could then
/// overtake its acquire. Other users of the connection would delay renewals. So each manager opens
/// its own connections: one to each server, and another one to each for reports of releases.
///
/// [credentials]: crate::RedlockBuilder::credentials
#[derive(Clone)]
pub struct NodeAddress(pub(super) AddressForm);

#[derive(Clone)]
pub(super) enum AddressForm {
    Url(String),
    Server { address: ConnectionAddr, login: RedisConnectionInfo },
}

/// Shows neither user nor password, nor a URL, which may contain both.
impl fmt::Debug for NodeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            AddressForm::Url(_) => f.write_str("NodeAddress(URL)"),
            AddressForm::Server { address, .. } => write!(f, "NodeAddress({address})"),
        }
    }
}

macro_rules! from_urls {
    ($($text:ty),*) => {
        $(impl From<$text> for NodeAddress {
            fn from(url: $text) -> Self {
                Self(AddressForm::Url(url.into()))
            }
        })*
    };
}

from_urls!(String, &str, &String, Box<str>, Cow<'_, str>);

impl<H: Into<String>> From<(H, u16)> for NodeAddress {
    fn from((host, port): (H, u16)) -> Self {
        let address = ConnectionAddr::Tcp(host.into(), port);
        Self(AddressForm::Server { address, login: RedisConnectionInfo::default() })
    }
}

/// Socket settings, protocol version and library name of a `ConnectionInfo` are not used.
/// Certificates and keys that were given to a [`Client`](::redis::Client) can't be read from it:
/// [`build`](crate::RedlockBuilder::build) refuses such a client, and
/// [`RedlockBuilder::tls`](crate::RedlockBuilder::tls) takes the certificates instead. `build`
/// refuses `insecure` as well.
///
/// ```
/// use redis::{Client, ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo};
/// use tower_redlock::Redlock;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let login = RedisConnectionInfo::default().set_username("locks").set_password("secret");
/// let info = ConnectionAddr::Tcp("10.0.0.1".into(), 6379).into_connection_info()?;
/// let client = Client::open("redis://10.0.0.2")?;
///
/// let redlock = Redlock::builder()
///     .nodes([info.set_redis_settings(login)])
///     .nodes([&client])
///     .nodes(["redis://:secret@10.0.0.3/1"])
///     .build()?;
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "redis-1")]
impl From<&ConnectionInfo> for NodeAddress {
    fn from(info: &ConnectionInfo) -> Self {
        let (address, login) = (info.addr().clone(), info.redis_settings().clone());
        Self(AddressForm::Server { address, login })
    }
}

#[cfg(feature = "redis-1")]
impl From<ConnectionInfo> for NodeAddress {
    fn from(info: ConnectionInfo) -> Self {
        Self::from(&info)
    }
}

#[cfg(feature = "redis-1")]
impl From<&Client> for NodeAddress {
    fn from(client: &Client) -> Self {
        client.get_connection_info().into()
    }
}

#[cfg(feature = "redis-1")]
impl From<Client> for NodeAddress {
    fn from(client: Client) -> Self {
        Self::from(&client)
    }
}

#[cfg(feature = "redis-1")]
impl From<ConnectionAddr> for NodeAddress {
    fn from(address: ConnectionAddr) -> Self {
        Self(AddressForm::Server { address, login: RedisConnectionInfo::default() })
    }
}
