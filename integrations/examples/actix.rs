//! An actix-web service whose requests for an account run one at a time.
//!
//! ```text
//! cargo run --package tower-redlock-integrations --example actix
//! curl -X POST http://127.0.0.1:8080/accounts/1/deposit/100
//! ```
//!
//! `REDLOCK_NODES=redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3` names the servers; without it,
//! the nodes are inside the process. `LISTEN` is the address. Ctrl-C ends it.

use std::{
    collections::HashMap,
    env,
    error::Error,
    fmt,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use actix_web::{App, HttpResponse, HttpServer, ResponseError, http::StatusCode, web};
use tower_redlock::{LockError, Redlock};

/// Stands for a database.
#[derive(Default)]
struct Balances(Mutex<HashMap<u64, u64>>);

impl Balances {
    fn get(&self, account: u64) -> u64 {
        let balances = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        balances.get(&account).copied().unwrap_or_default()
    }

    fn set(&self, account: u64, balance: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(account, balance);
    }
}

async fn deposit(
    path: web::Path<(u64, u64)>,
    redlock: web::Data<Redlock>,
    balances: web::Data<Balances>,
) -> Result<String, Refused> {
    let (account, amount) = path.into_inner();
    let request = redlock.lock(format!("account:{account}")).wait(Duration::from_secs(5));
    // The future is dropped before the validity of the lock ends, or when actix drops the request.
    let balance = request
        .run(async |cx| {
            let before = balances.get(account);
            // Other requests for this account would now read the same balance.
            actix_web::rt::time::sleep(Duration::from_millis(5)).await;
            balances.set(account, before + amount);
            println!("deposited {amount} under token {}", cx.fencing_token());
            before + amount
        })
        .await?;
    Ok(format!("{balance}\n"))
}

/// The response to a request that got no lock.
#[derive(Debug)]
struct Refused(LockError);

impl From<LockError> for Refused {
    fn from(error: LockError) -> Self {
        Self(error)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.status_code() {
            StatusCode::CONFLICT => "another request for this account is under way",
            _ => "no lock at the moment",
        })
    }
}

impl ResponseError for Refused {
    fn status_code(&self) -> StatusCode {
        match &self.0 {
            LockError::Held { .. } => StatusCode::CONFLICT,
            LockError::WaitTimedOut { last, .. } if matches!(**last, LockError::Held { .. }) => {
                StatusCode::CONFLICT
            }
            _ => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    fn error_response(&self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status_code());
        // It names servers, so it is for the log and not for the caller.
        eprintln!("refused: {}", self.0);
        if let LockError::Held { retry_after: Some(after), .. } = &self.0 {
            response.insert_header(("retry-after", after.as_secs().max(1).to_string()));
        }
        response.body(format!("{self}\n"))
    }
}

#[actix_web::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let redlock = match env::var("REDLOCK_NODES") {
        Ok(urls) => Redlock::builder().nodes(urls.split(',')).build()?,
        Err(_) => Redlock::embedded(),
    };
    // A new or restarted server votes after `max_ttl` (10 s): it may have forgotten locks.
    redlock.ready_within(Duration::from_secs(60)).await?;

    // The workers of actix share one manager, and so its connections and its queue.
    let (shared, balances) = (web::Data::new(redlock.clone()), web::Data::new(Balances::default()));
    let server = HttpServer::new(move || {
        App::new()
            .app_data(shared.clone())
            .app_data(balances.clone())
            .route("/accounts/{id}/deposit/{amount}", web::post().to(deposit))
    });
    let server = server.bind(env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:8080".into()))?;
    println!("listening on http://{}", server.addrs()[0]);
    server.run().await?;

    redlock.shutdown().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[actix_web::test]
    async fn held_lock_is_a_conflict() {
        let redlock = Redlock::embedded();
        let _held = redlock.lock("account:1").await.unwrap();
        let single = redlock.lock("account:1").await.unwrap_err();
        let waited = redlock.lock("account:1").wait(Duration::from_millis(10)).await.unwrap_err();
        redlock.shutdown().await;
        let closed = redlock.lock("account:1").await.unwrap_err();

        let response = Refused(single).error_response();

        assert_eq!(response.status(), StatusCode::CONFLICT);
        assert!(response.headers().contains_key("retry-after"));
        assert_eq!(Refused(waited).status_code(), StatusCode::CONFLICT);
        assert_eq!(Refused(closed).status_code(), StatusCode::SERVICE_UNAVAILABLE);
    }
}
