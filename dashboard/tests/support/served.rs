//! A service on a port of 127.0.0.1.

use axum::Router;
use tokio::task::JoinHandle;

/// Serves until it is dropped.
#[derive(Debug)]
pub(crate) struct Served {
    url: String,
    task: JoinHandle<()>,
}

impl Served {
    /// Serves a router by axum.
    pub(crate) async fn router(router: Router) -> Self {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let task = tokio::spawn(async move {
            axum::serve(listener, router).await.expect("it serves on");
        });
        Self { url, task }
    }

    /// The URL without a trailing slash, such as `http://127.0.0.1:40000`.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn at(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}
