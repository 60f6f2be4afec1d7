//! Requests that the sender did not send, with the ids of future or handled events.

use std::time::Duration;

use axum::http::StatusCode;

use super::{
    sender::{Event, Sender},
    signature::{ID, Key, SIGNATURE, TIMESTAMP, now},
};
use crate::stories::Failure;

const TOO_OLD: Duration = Duration::from_secs(3600);

#[derive(Default)]
pub(crate) struct Forgeries {
    pub(crate) sent: usize,
    /// Those with another answer than expected.
    pub(crate) wrong: usize,
}

/// Sends five kinds of forgeries for each event.
pub(crate) async fn send(
    sender: &Sender,
    events: &[&Event],
    forgeries: &mut Forgeries,
) -> Result<(), Failure> {
    let stranger = Key::new("whsec_c3RyYW5nZXJzIGtub3cgYW5vdGhlciBvbmU=")?;
    for event in events {
        let Event { id, amount } = event;
        let (body, time) = (event.body(), now());
        let greedy = Event { id: id.clone(), amount: amount + 1_000_000 }.body();
        let sign = |key: &Key, time, body: &str| key.sign(id, time, body.as_bytes());
        let right = sign(&sender.key, time, &body);
        let old = time - TOO_OLD.as_secs();
        let old_signature = sign(&sender.key, old, &body);
        let strange = sign(&stranger, time, &greedy);
        let (time, old) = (time.to_string(), old.to_string());
        let (id, time, old) = ((ID, &id[..]), (TIMESTAMP, &time[..]), (TIMESTAMP, &old[..]));
        let [right, old_signature, strange] =
            [&right, &old_signature, &strange].map(|signature| (SIGNATURE, &signature[..]));

        let unauthorized = StatusCode::UNAUTHORIZED;
        let kinds: [(&[_], &str, _); 5] = [
            // Another body with the sender's own signature.
            (&[id, time, right], &greedy, unauthorized),
            // Another secret.
            (&[id, time, strange], &greedy, unauthorized),
            // A recorded request that is repeated much later.
            (&[id, old, old_signature], &body, unauthorized),
            (&[time, right], &body, StatusCode::BAD_REQUEST),
            (&[id, time], &greedy, StatusCode::BAD_REQUEST),
        ];
        for (headers, body, expected) in kinds {
            let answered = sender.send(headers, body.to_owned()).await?;
            forgeries.sent += 1;
            forgeries.wrong += usize::from(answered != expected);
        }
    }
    Ok(())
}
