//! Reservations of keys whose records are being read, so that usually each record is read from one
//! node only.
//!
//! A reservation only saves load: reading a record twice has the same result.

use std::{collections::HashSet, mem, time::Duration};

use tokio::time::{Instant, sleep};

use crate::sync::{Mutex, lock};

/// Interval between checks of reserved keys.
const INTERVAL: Duration = Duration::from_millis(5);

#[derive(Debug, Default)]
pub(super) struct KeyReservations {
    keys: Mutex<HashSet<Vec<u8>>>,
}

impl KeyReservations {
    /// Moves all keys that are not reserved out of `keys`, and reserves them.
    ///
    /// While there are none, waits for at most `max_delay`, and subtracts the waiting time from it.
    /// Then takes all keys, so that a slow source delays the others by their `max_delay` only.
    pub(super) async fn take(
        &self,
        keys: &mut Vec<Vec<u8>>,
        max_delay: &mut Duration,
    ) -> ReservedKeys<'_> {
        loop {
            let free = self.take_free(keys);
            if !free.keys.is_empty() || keys.is_empty() {
                return free;
            }
            if max_delay.is_zero() {
                return ReservedKeys { keys: mem::take(keys), of: self };
            }
            let begun = Instant::now();
            sleep(INTERVAL.min(*max_delay)).await;
            *max_delay = max_delay.saturating_sub(begun.elapsed());
        }
    }

    fn take_free(&self, keys: &mut Vec<Vec<u8>>) -> ReservedKeys<'_> {
        let mut reserved = lock(&self.keys);
        let is_free = |key: &mut Vec<u8>| reserved.insert(key.clone());
        let free = keys.extract_if(.., is_free).collect();
        ReservedKeys { keys: free, of: self }
    }
}

/// Reserved keys; dropping this ends the reservation.
#[derive(Debug)]
pub(super) struct ReservedKeys<'a> {
    keys: Vec<Vec<u8>>,
    of: &'a KeyReservations,
}

impl ReservedKeys<'_> {
    pub(super) fn keys(&self) -> &[Vec<u8>] {
        &self.keys
    }
}

impl Drop for ReservedKeys<'_> {
    fn drop(&mut self) {
        let mut reserved = lock(&self.of.keys);
        for key in &self.keys {
            reserved.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(5);

    fn keys(names: &str) -> Vec<Vec<u8>> {
        names.bytes().map(|name| vec![name]).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn reserved_keys_come_later() {
        let reservations = KeyReservations::default();
        let (mut one, mut two) = (keys("ab"), keys("bac"));
        let (mut max_delay, started) = (LIMIT, Instant::now());
        let first = reservations.take(&mut one, &mut max_delay).await;

        let second = reservations.take(&mut two, &mut max_delay).await;

        assert_eq!((first.keys(), &one), (&keys("ab")[..], &keys("")));
        assert_eq!((second.keys(), &two), (&keys("c")[..], &keys("ba")));
        assert_eq!((max_delay, started.elapsed()), (LIMIT, Duration::ZERO));

        let ending = async {
            sleep(Duration::from_secs(2)).await;
            drop(first);
        };
        let (third, ()) = tokio::join!(reservations.take(&mut two, &mut max_delay), ending);

        assert_eq!((third.keys(), &two), (&keys("ba")[..], &keys("")));

        let waited = LIMIT.saturating_sub(max_delay);
        assert!(waited >= Duration::from_secs(2) && !max_delay.is_zero(), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn lasting_reservations_delay_once() {
        let reservations = KeyReservations::default();
        let (mut max_delay, started) = (LIMIT, Instant::now());
        let _lasting = reservations.take(&mut keys("abc"), &mut max_delay).await;
        for name in ["a", "b", "c"] {
            let taken = reservations.take(&mut keys(name), &mut max_delay).await;
            assert_eq!(taken.keys(), keys(name));
            assert_eq!((max_delay, started.elapsed()), (Duration::ZERO, LIMIT));
        }
    }

    #[tokio::test]
    async fn nothing_is_reserved_of_nothing() {
        let reservations = KeyReservations::default();
        let mut max_delay = Duration::ZERO;
        let taken = reservations.take(&mut Vec::new(), &mut max_delay).await;
        assert!(taken.keys().is_empty() && lock(&reservations.keys).is_empty());
    }
}
