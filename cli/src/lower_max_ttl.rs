//! `redlock lower-max-ttl`: a lower `max_ttl` on the servers.

use serde_json::json;
use tower_redlock::error::LowerError;

use crate::{
    client::Client,
    exit::{CONFIG, Failure, UNAVAILABLE},
    options::SharedArgs,
    output::{Progress, error_text, say, time},
};

pub(crate) async fn lower(shared: &SharedArgs) -> Result<(), Failure> {
    let Client { settings, redlock, output } = Client::settled(shared).await?;
    let max_ttl = settings.max_ttl();
    let to = time(max_ttl);
    let longest = redlock.health().iter().filter_map(|node| node.max_ttl).max();
    if let Some(longest) = longest.filter(|longest| *longest > max_ttl) {
        let from = time(longest);
        say(&format!(
            "lowering max_ttl from {from} to {to}: longer TTLs are refused from now on; waiting for {from}, \
             until all locks with a longer TTL have expired"
        ));
    }
    let waiting = "waiting until locks with a longer TTL have expired";
    let lowered = Progress::new().during(waiting, redlock.lower_max_ttl()).await;
    let error = error_text(&lowered);
    output.show_json(&json!({ "lowered": error.is_none(), "error": error }))?;
    match lowered {
        Ok(()) => {
            let nodes = redlock.nodes().len();
            output.show_text(&format!("max_ttl is {to} at most on all {nodes} nodes\n"))
        }
        Err(error @ LowerError::IncompleteSets { .. }) => {
            Err(Failure::new(UNAVAILABLE, error.to_string()))
        }
        Err(error @ LowerError::Incomplete { .. }) => {
            let rest = "the other nodes keep the lower max_ttl: run it again for the rest";
            Err(Failure::new(UNAVAILABLE, format!("{error}; {rest}")))
        }
        Err(error) => Err(Failure::new(CONFIG, error.to_string())),
    }
}
