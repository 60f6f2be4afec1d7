//! One of the processes leads.

use std::sync::{Arc, Mutex};

use tower_redlock::{Redlock, Term};

use super::{Checked, requests::belief};
use crate::{rng::Rng, world::process::Shared};

const NAME: &str = "boss";

pub(super) async fn lead(shared: Arc<Shared>, redlock: Redlock, rng: Rng) {
    let candidate = redlock.leader(NAME).ttl(shared.ttl());
    let rng = Mutex::new(rng);
    let oracle = shared.oracle.clone();
    let run = candidate.run_until_stopped(|term: Term| {
        let context = (*term).clone();
        let token = context.fencing_token().get();
        let guard = oracle.held(shared.client, &[NAME], token, belief(&context));
        let time =
            rng.lock().map_or_else(|_| std::time::Duration::ZERO, |mut rng| rng.millis(0, 4_000));
        let work = async move {
            let until = tokio::time::Instant::now() + time;
            while tokio::time::Instant::now() < until {
                guard.check();
                tokio::select! {
                    biased;
                    () = term.stopping() => break,
                    () = tokio::time::sleep(std::time::Duration::from_millis(25)) => {}
                }
            }
            Ok::<(), std::io::Error>(())
        };
        Checked::new(context, &oracle, work)
    });
    let stops = async {
        let mut stop = shared.stop.subscribe();
        // `shared` keeps the sender alive.
        let _ = stop.wait_for(|stop| *stop).await;
        candidate.stop().await;
    };
    let (ended, ()) = tokio::join!(biased; run, stops);
    shared.oracle.event(format!("c{} leads no more: {ended:?}", shared.client));
}
