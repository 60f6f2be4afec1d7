//! A gRPC server for each replica, on a port of its own.

use std::{error::Error, net::SocketAddr, sync::Arc};

use tokio::{net::TcpListener, sync::watch, task::JoinSet};
use tonic::transport::{self, Channel, Endpoint, Server, server::TcpIncoming};
use tower::Layer;

use crate::{
    book::Book,
    cluster::Cluster,
    orders::orders_server::OrdersServer,
    service::{self, Orders},
};

pub(crate) struct Servers {
    addrs: Vec<SocketAddr>,
    tasks: JoinSet<Result<(), transport::Error>>,
    stop: watch::Sender<bool>,
}

impl Servers {
    pub(crate) async fn start(
        cluster: &Cluster,
        book: &Arc<Book>,
    ) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let stop = watch::Sender::new(false);
        let (mut addrs, mut tasks) = (Vec::new(), JoinSet::new());
        for redlock in &cluster.replicas {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            addrs.push(listener.local_addr()?);
            let orders = Orders { redlock: redlock.clone(), book: Arc::clone(book) };
            // Around this one service; `Server::layer` takes the same layer for all of a server.
            let service = service::one_at_a_time(redlock).layer(OrdersServer::new(orders));
            let mut stopped = stop.subscribe();
            tasks.spawn(Server::builder().add_service(service).serve_with_incoming_shutdown(
                TcpIncoming::from(listener),
                async move {
                    let _ = stopped.wait_for(|stop| *stop).await;
                },
            ));
        }
        Ok(Self { addrs, tasks, stop })
    }

    /// A connection to each.
    pub(crate) async fn connect(&self) -> Result<Vec<Channel>, Box<dyn Error + Send + Sync>> {
        let mut channels = Vec::new();
        for addr in &self.addrs {
            channels.push(Endpoint::from_shared(format!("http://{addr}"))?.connect().await?);
        }
        Ok(channels)
    }

    /// Waits for the calls that are running.
    pub(crate) async fn stop(mut self) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.stop.send_replace(true);
        while let Some(ended) = self.tasks.join_next().await {
            ended??;
        }
        Ok(())
    }
}
