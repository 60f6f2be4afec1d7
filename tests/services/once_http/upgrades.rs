//! Connections that a response upgrades: their sessions would run without the lock of their key.

use std::time::Duration;

use axum::{
    Router,
    routing::{MethodRouter, get},
};
use http::{Method, StatusCode};
use tower_redlock::{
    OnceLayer, key,
    once::{OnceState, UnknownOutcome, http::ServerErrors},
};

use crate::client::Client;
use crate::handlers::{self, Session, Sessions, ask, is_closed_after};
use crate::once_http::fixture::{Fixture, HOUR, serve, soon};
use crate::once_http::idempotency::{connects, requests};

/// What a client sends to one kind of layer.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Header,
    Body,
    Idempotency,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Header, Self::Body, Self::Idempotency];

    /// The name of the record in `redlock.once`.
    const fn record(self) -> &'static str {
        match self {
            Self::Header | Self::Body => "layer:hook:evt_1",
            Self::Idempotency => "idempotency:pay://x/5:alice:k",
        }
    }

    /// Around `handler`, and a route that answers.
    async fn serve(self, fixture: &Fixture, handler: MethodRouter, max_hold: Duration) -> Client {
        let app = Router::new().route("/ws", handler).route("/other", get(async || "other"));
        let hold = UnknownOutcome::Hold(HOUR);
        let redlock = fixture.at_blue.clone();
        let app = match self {
            Self::Header => app.route_layer(
                OnceLayer::new(redlock, "hook", key::header("webhook-id"))
                    .max_hold(max_hold)
                    .unknown(hold)
                    .http(),
            ),
            Self::Body => app.route_layer(
                OnceLayer::by_body(redlock, "hook", key::json_pointer("/id"))
                    .max_hold(max_hold)
                    .unknown(hold),
            ),
            Self::Idempotency => app.route_layer(
                requests::layer(&redlock)
                    .max_hold(max_hold)
                    .unknown(hold)
                    .methods([Method::GET])
                    .server_errors(ServerErrors::Keep),
            ),
        };
        serve(app).await
    }

    async fn ask(self, client: &Client, connection: &str) -> tokio::net::TcpStream {
        let body = r#"{"id":"evt_1"}"#;
        let lines = format!(
            "webhook-id: evt_1\r\nx-caller: alice\r\nidempotency-key: k\r\ncontent-length: {}\r\n",
            body.len()
        );
        ask(client.addr(), "/ws", connection, &lines, body).await
    }
}

#[tokio::test]
async fn session_of_keyed_request_never_begins() {
    for kind in Kind::ALL {
        for connection in ["Upgrade", "Upgrade, close"] {
            let fixture = Fixture::new(3);
            let (handler, mut sessions) = handlers::unguarded();
            let client = kind.serve(&fixture, handler, HOUR).await;

            let stream = kind.ask(&client, connection).await;

            is_closed_after(500, "upgrade-unguarded", stream).await;
            never_began(&mut sessions).await;
            let status = fixture.at_green.once_key(kind.record()).status().await.unwrap();
            let state = status.map(|status| status.state);
            assert_eq!(state, Some(OnceState::Unknown), "{kind:?}");
        }
    }
}

/// The handler has taken the connection, and its lock ends.
#[tokio::test]
async fn session_of_stopped_request_never_begins() {
    for kind in Kind::ALL {
        let fixture = Fixture::new(3);
        let (handler, mut sessions) = handlers::stuck();
        let max_hold = Duration::from_secs(30);
        let client = kind.serve(&fixture, handler, max_hold).await;
        let stream = kind.ask(&client, "Upgrade, close").await;
        assert_eq!(soon("the handler", sessions.recv()).await, Some(Session::Taken));

        fixture.clock.advance(max_hold);

        is_closed_after(500, "lost", stream).await;
        never_began(&mut sessions).await;
    }
}

async fn never_began(sessions: &mut Sessions) {
    assert_eq!(soon("the session's end", sessions.recv()).await, Some(Session::Dropped));
}

#[tokio::test]
async fn http2_session_of_keyed_connect_never_begins() {
    let fixture = Fixture::new(3);
    let (handler, mut sessions) = handlers::unguarded();
    let app = Router::new().route("/ws", handler).route("/free", get(async || ""));
    let once = requests::layer(&fixture.at_blue).methods([Method::CONNECT]);
    let client = serve(app.layer(once)).await;

    let answer = connects::connect_with(client.addr(), Some("k")).await;

    assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(soon("the session's end", sessions.recv()).await, Some(Session::Dropped));
}
