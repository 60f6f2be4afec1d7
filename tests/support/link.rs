//! A connection through a proxy whose client can be disconnected while its bytes are in flight.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Weak};

use tokio::sync::watch;

/// How a connection's bytes to the server are handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Way {
    #[default]
    Open,
    Held,
    /// They are forwarded to the server. The client is gone.
    Late,
}

/// The proxy's end: what it may do to a connection that is being relayed.
#[derive(Debug)]
pub struct Link {
    way: watch::Sender<Way>,
    client: Weak<TcpStream>,
}

/// The relay's end. The relay is over when all of these are dropped.
#[derive(Clone, Debug)]
pub struct Relayed {
    way: watch::Receiver<Way>,
    _client: Arc<TcpStream>,
}

impl Link {
    pub fn new(client: &tokio::net::TcpStream) -> io::Result<(Self, Relayed)> {
        let client = Arc::new(TcpStream::from(client.as_fd().try_clone_to_owned()?));
        let (sender, way) = watch::channel(Way::default());
        let link = Self { way: sender, client: Arc::downgrade(&client) };
        Ok((link, Relayed { way, _client: client }))
    }

    pub fn is_over(&self) -> bool {
        self.way.is_closed()
    }

    pub fn hold(&self) {
        self.way.send_replace(Way::Held);
    }

    pub fn is_held(&self) -> bool {
        *self.way.borrow() == Way::Held
    }

    /// Closes the client's side. Bytes that the client sends from now on are lost; bytes that it
    /// has sent are still read.
    pub fn drop_client(&self) {
        if let Some(client) = self.client.upgrade() {
            // Fails if the client was faster.
            let _ = client.shutdown(Shutdown::Both);
        }
    }

    /// Returns when the server has closed the connection, and so has read all bytes.
    pub async fn deliver(self) {
        self.drop_client();
        self.way.send_replace(Way::Late);
        self.way.closed().await;
    }
}

impl Relayed {
    pub fn is_held(&self) -> bool {
        *self.way.borrow() == Way::Held
    }

    pub async fn not_held(&mut self) {
        let _ = self.way.wait_for(|way| *way != Way::Held).await;
    }

    /// Whether the server's end stays open without the client's.
    pub fn outlives_client(&self) -> bool {
        *self.way.borrow() != Way::Open
    }
}
