//! The service that owns the files. It takes no locks, and checks tokens.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::{
    Router,
    extract::{Path, State},
    http::HeaderMap,
    routing::put,
};
use tokio::net::TcpListener;
use tower_redlock::{FencingLayer, key};

use crate::stories::Failure;

pub(crate) struct Storage {
    pub(crate) addr: SocketAddr,
    pub(crate) shelf: Shelf,
}

impl Storage {
    pub(crate) async fn open() -> Result<Self, Failure> {
        let shelf = Shelf::default();
        // A token older than the newest one for the file is rejected with 412 before the handler.
        let fence = FencingLayer::new(key::path_segment(1).prefixed("file:")).http();
        let app = Router::new()
            .route("/files/{name}", put(write))
            .route_layer(fence)
            .with_state(shelf.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let addr = listener.local_addr()?;
        tokio::spawn(async move { axum::serve(listener, app).await });
        Ok(Self { addr, shelf })
    }
}

async fn write(
    State(shelf): State<Shelf>,
    Path(name): Path<String>,
    headers: HeaderMap,
    content: String,
) {
    let token = headers.get("fencing-token").and_then(|token| token.to_str().ok()?.parse().ok());
    shelf.put(name, content, token.expect("the layer has read it"));
}

/// The files, and a detector of writes that the fence must prevent.
#[derive(Clone, Default)]
pub(crate) struct Shelf {
    files: Arc<Mutex<Files>>,
}

#[derive(Default)]
struct Files {
    by_name: BTreeMap<String, (String, u64)>,
    writes: usize,
    backward: usize,
}

impl Shelf {
    fn put(&self, name: String, content: String, token: u64) {
        let mut files = self.lock();
        files.writes += 1;
        if let Some((_, last)) = files.by_name.insert(name, (content, token)) {
            files.backward += usize::from(token < last);
        }
    }

    pub(crate) fn content(&self, name: &str) -> Option<String> {
        self.lock().by_name.get(name).map(|(content, _)| content.clone())
    }

    /// The number of writes that reached the handler.
    pub(crate) fn writes(&self) -> usize {
        self.lock().writes
    }

    /// The number of those that came after one with a newer token.
    pub(crate) fn backward(&self) -> usize {
        self.lock().backward
    }

    fn lock(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
