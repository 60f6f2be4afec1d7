//! Opens connections: logs in, loads scripts, and determines the kind of the server.

#[cfg(feature = "tls")]
use std::io::ErrorKind;
use std::{sync::Arc, time::Duration};

use ::redis::{Pipeline, Value};

#[cfg(feature = "tls")]
use super::tls;
use super::{
    Access, Address, Credentials, Endpoint, IoStream, RestartGuard,
    connection_login::ConnectionLogin,
    connector::{self, UnknownHost},
    directory::Location,
    endpoint::Place,
    enrol::{Membership, NodeReport, Tag},
    login::{Login, refused_login},
    scripts::{self, Digests},
    server_clock::ServerClock,
    server_traits::{self, Probe},
    side_connection::SideConnection,
    socket::SharedSocket,
    values::{digest, info, read_time},
    wire::{TOO_LONG, Wire},
};
use crate::error::{Reason, UnfitServer};

/// Timeout for opening a connection.
pub(super) const TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout for the TLS handshake. It is shorter than the whole timeout, as its error is more exact.
#[cfg(feature = "tls")]
const TLS_TIMEOUT: Duration = Duration::from_millis(1_500);
/// Minimum server version.
const MIN_VERSION: (u32, u32) = (6, 2);

/// A connection that is ready for operations.
pub(super) struct ReadyConnection {
    pub(super) wire: Wire,
    /// The location of the server.
    pub(super) location: Location,
    pub(super) digests: Arc<Digests>,
    /// The socket below the wire, if other threads may write to it.
    pub(super) socket: Option<SharedSocket>,
    pub(super) server_clock: ServerClock,
    pub(super) login: ConnectionLogin,
}

pub(super) async fn connect(
    endpoint: &Endpoint,
    member: &Membership,
    location: &Location,
) -> Result<ReadyConnection, Reason> {
    let access = &member.set.settings.access;
    // The login has a timeout of its own.
    let login = current_login(endpoint, access).await?;
    let greeted = tokio::time::timeout(TIMEOUT, greet(endpoint, member, location, login)).await;
    let greeted = greeted.unwrap_or_else(|_| Err(no_greeting(endpoint)));
    greeted.map_err(|reason| of_master(endpoint, &location.address, reason))
}

/// Returns the reason for a server that accepts connections and does not answer in time.
pub(super) fn no_greeting(endpoint: &Endpoint) -> Reason {
    Reason::NotConnected(format!("no greeting from {} within {TIMEOUT:?}", endpoint.name).into())
}

/// Adds to the error of a first command that the server may use another protocol.
pub(super) fn unanswered(endpoint: &Endpoint, reason: Reason) -> Reason {
    match reason {
        Reason::NotConnected(text) if !endpoint.tls && &*text != TOO_LONG => {
            Reason::NotConnected(format!("{text}; the port may speak only TLS").into())
        }
        other => other,
    }
}

/// Adds the address that Sentinels or a Cluster reported to an error.
fn of_master(endpoint: &Endpoint, address: &Address, reason: Reason) -> Reason {
    let Place::Named(_) = &endpoint.place else { return reason };
    let named = |text: &str| -> Arc<str> { format!("the master {address}: {text}").into() };
    match reason {
        Reason::NotConnected(text) => Reason::NotConnected(named(&text)),
        Reason::NotLocated(text) => Reason::NotLocated(named(&text)),
        Reason::Tls(text) => Reason::Tls(named(&text)),
        other => other,
    }
}

async fn greet(
    endpoint: &Endpoint,
    member: &Membership,
    location: &Location,
    login: ConnectionLogin,
) -> Result<ReadyConnection, Reason> {
    let access = &member.set.settings.access;
    let (stream, socket) = open_shared(endpoint, access, &location.address).await?;
    let wire = Wire::new(stream);
    let current = login.current().cloned();
    let greeted = greet_as(login, endpoint, member, wire, socket, location).await;
    greeted.map_err(|reason| match &current {
        Some(login) => login.hide(reason),
        None => reason,
    })
}

async fn greet_as(
    login: ConnectionLogin,
    endpoint: &Endpoint,
    member: &Membership,
    mut wire: Wire,
    socket: Option<SharedSocket>,
    location: &Location,
) -> Result<ReadyConnection, Reason> {
    let settings = &member.set.settings;
    let mut pipeline = auth(login.current());
    if endpoint.database != 0 {
        pipeline.cmd("SELECT").arg(endpoint.database);
    }
    let logins = pipeline.len();
    scripts::load(&mut pipeline, &scripts::OF_LOCKS);
    pipeline.cmd("TIME");
    server_traits::add_probe(&mut pipeline);
    let sent = settings.clock.now();
    let answers = wire.ask(&pipeline).await;
    let mut answers = answers.map_err(|reason| unanswered(endpoint, reason))?;
    let probe = Probe::take(&mut answers);
    // A server in such a mode may support neither scripts nor databases.
    probe.check_mode(&settings.prefix)?;
    let mut answers = answers.into_iter();
    let has_auth = login.current().is_some();
    for (number, answer) in answers.by_ref().take(logins).enumerate() {
        refused_login(&answer, number == 0 && has_auth)?;
    }
    let mut next = || answers.next().unwrap_or(Value::Nil);
    let mut digests = Digests::default();
    for script in scripts::OF_LOCKS {
        digests.learn(script, Some(digest(next()).map_err(no_scripts)?));
    }
    let (version, number) = version(probe.server())?;
    member.set.set_traits(member.index, probe.traits(version, number, settings.guards.restart)?);
    // The clock is read before any vote.
    let server_clock = ServerClock::new(sent, read_time(next())?, settings.drift_factor);
    let location = location.clone();
    let digests = Arc::new(digests);
    Ok(ReadyConnection { wire, location, digests, socket, server_clock, login })
}

/// Parses a health check. A replica is an error.
pub(super) fn parse_report(
    answers: &mut impl Iterator<Item = Value>,
    tag: &Tag,
    restart: RestartGuard,
) -> Result<Result<NodeReport, Reason>, Reason> {
    match NodeReport::parse(answers, tag, restart) {
        Ok(report) if report.is_replica => Err(Reason::ReadOnly),
        Ok(report) => Ok(Ok(report)),
        Err(reason) if keeps_keys(&reason) => Ok(Err(reason)),
        Err(reason) => Err(reason),
    }
}

/// Returns whether a server with this error can't be enrolled, but may renew existing keys.
pub(super) fn keeps_keys(reason: &Reason) -> bool {
    matches!(
        reason,
        Reason::OutOfMemory | Reason::PersistenceFailing | Reason::Busy | Reason::NoReplicas
    )
}

/// Opens a separate connection to the database, for data that must not delay votes.
pub(super) async fn open_beside(
    endpoint: &Endpoint,
    access: &Access,
    login: ConnectionLogin,
) -> Result<SideConnection, Reason> {
    let opening = async {
        let location = endpoint.locate().await?;
        let opened = open_as(&login, endpoint, access, &location.address).await;
        let mut wire = opened.map_err(|reason| of_master(endpoint, &location.address, reason))?;
        if endpoint.database != 0 {
            let mut pipeline = Pipeline::with_capacity(1);
            pipeline.cmd("SELECT").arg(endpoint.database);
            for answer in wire.ask(&pipeline).await? {
                refused_login(&answer, false)?;
            }
        }
        Ok(wire)
    };
    let opened = tokio::time::timeout(TIMEOUT, opening).await;
    let wire = opened.unwrap_or(Err(Reason::TimedOut))?;
    Ok(SideConnection::new(wire, login))
}

/// Opens a connection without a database, for pushed messages.
pub(super) async fn open_for_pushes(
    endpoint: &Endpoint,
    access: &Access,
    address: &Address,
) -> Result<(Wire, ConnectionLogin), Reason> {
    let login = current_login(endpoint, access).await?;
    let opening = open_as(&login, endpoint, access, address);
    let opened = tokio::time::timeout(TIMEOUT, opening).await;
    let opened = opened.unwrap_or(Err(Reason::TimedOut));
    Ok((opened.map_err(|reason| of_master(endpoint, address, reason))?, login))
}

/// Opens a connection and logs in.
async fn open_as(
    login: &ConnectionLogin,
    endpoint: &Endpoint,
    access: &Access,
    address: &Address,
) -> Result<Wire, Reason> {
    let mut wire = Wire::new(open(endpoint, access, address).await?);
    let auth = auth(login.current());
    if !auth.is_empty() {
        for answer in wire.ask(&auth).await.map_err(|reason| login.hide(reason))? {
            refused_login(&answer, true).map_err(|reason| login.hide(reason))?;
        }
    }
    Ok(wire)
}

/// Opens a stream to the server at this address, and returns its socket if other threads may write to it.
async fn open_shared(
    endpoint: &Endpoint,
    access: &Access,
    address: &Address,
) -> Result<(Box<dyn IoStream>, Option<SharedSocket>), Reason> {
    let Address::Tcp { host, port } = address else {
        return Ok((open(endpoint, access, address).await?, None));
    };
    if endpoint.tls || !access.connector.opens_sockets() {
        return Ok((open(endpoint, access, address).await?, None));
    }
    let opened = connector::open_socket(host, *port).await;
    let socket = SharedSocket::new(opened.map_err(|error| unconnected(endpoint, &error))?);
    Ok((Box::new(socket.clone()), Some(socket)))
}

/// Returns the reason for a stream that could not be opened.
fn unconnected(endpoint: &Endpoint, error: &std::io::Error) -> Reason {
    let mut text = error.to_string();
    if let Place::Named(directory) = &endpoint.place {
        let silence = directory.why_unlocated().map(|why| format!("; {why}"));
        text.push_str(&silence.unwrap_or_default());
    }
    let is_unknown = error.get_ref().and_then(|inner| inner.downcast_ref::<UnknownHost>());
    if is_unknown.is_some() {
        Reason::NotLocated(text.into())
    } else {
        Reason::NotConnected(text.into())
    }
}

/// Opens a stream to the server at this address.
async fn open(
    endpoint: &Endpoint,
    access: &Access,
    address: &Address,
) -> Result<Box<dyn IoStream>, Reason> {
    let stream = access.connector.connect(address).await;
    let stream = stream.map_err(|error| unconnected(endpoint, &error))?;
    #[cfg(feature = "tls")]
    if endpoint.tls {
        let name = endpoint.certificate_name.as_ref().unwrap_or(address);
        let wrapping = tokio::time::timeout(TLS_TIMEOUT, access.tls.wrap(name, stream));
        let Ok(wrapped) = wrapping.await else {
            let text = format!(
                "no greeting from {address} within {TLS_TIMEOUT:?}; the port may not speak TLS"
            );
            return Err(Reason::NotConnected(text.into()));
        };
        return wrapped.map_err(|error| match error.kind() {
            // The cause is the server's certificate, a reply that is not TLS, the expected name, or
            // a local file.
            ErrorKind::InvalidData | ErrorKind::InvalidInput | ErrorKind::Other => {
                let hint = if tls::is_no_tls(&error) { "; the port may not speak TLS" } else { "" };
                Reason::Tls(format!("{error}{hint}").into())
            }
            _ => unconnected(endpoint, &error),
        });
    }
    Ok(stream)
}

/// Creates the `AUTH` command, if a login is needed.
fn auth(login: Option<&Login>) -> Pipeline {
    let mut pipeline = Pipeline::with_capacity(16);
    if let Some(login) = login {
        login.add_to(&mut pipeline);
    }
    pipeline
}

/// Returns the login of a new connection.
pub(super) async fn current_login(
    endpoint: &Endpoint,
    access: &Access,
) -> Result<ConnectionLogin, Reason> {
    let source = credentials(endpoint, access);
    let login = match source {
        None => None,
        Some(credentials) => Some(credentials.resolve().await.map_err(Reason::Auth)?),
    };
    Ok(ConnectionLogin::new(&endpoint.name, source.cloned(), login))
}

/// Credentials in the URL take precedence over the credentials of the set.
pub(super) fn credentials<'a>(
    endpoint: &'a Endpoint,
    access: &'a Access,
) -> Option<&'a Credentials> {
    endpoint.credentials.as_ref().or(access.credentials.as_ref())
}

/// Returns the reason for which a server loads no scripts, unless the failure may be temporary.
fn no_scripts(reason: Reason) -> Reason {
    match reason {
        Reason::Server(error) => Reason::Unfit(UnfitServer::NoScripts { error }),
        other => other,
    }
}

/// Major and minor version.
type Version = (u32, u32);

/// Returns the server's version, and the Redis version that it is compatible with; `None` and zero
/// if INFO is denied.
pub(super) fn version(answer: &Value) -> Result<(Option<Arc<str>>, Version), Reason> {
    let field = |name: &str| info(answer, name);
    // Other servers report the Redis version that they are compatible with in this field.
    let Some(version) = field("redis_version") else { return Ok((None, (0, 0))) };
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let parsed = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if parsed < MIN_VERSION {
        return Err(Reason::Unfit(UnfitServer::TooOld { version }));
    }
    let names = ["valkey_version", "dragonfly_version", "garnet_version"];
    Ok((Some(names.into_iter().find_map(field).unwrap_or(version)), parsed))
}
