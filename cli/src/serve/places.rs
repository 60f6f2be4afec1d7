//! The limited number of connections: at the limit, the connection that has been idle longest ends for the newest.
//!
//! A client that has shown no password ends first, whatever it does. A client that waits for a response keeps its place.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::timeout};

use super::activity::Activity;

/// Minimum time before a connection ends for a newer one: its request may be on the way.
const MIN_STAY: Duration = Duration::from_secs(1);
/// Interval between checks while no connection may end.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The places of connections.
#[derive(Debug)]
pub(super) struct Places {
    limit: usize,
    taken: Mutex<Taken>,
    /// Reports that a place is free, or that a connection has become idle.
    changed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Taken {
    connections: BTreeMap<u64, Activity>,
    /// The number of the latest place.
    last: u64,
}

/// The place of a connection. Dropping it returns it.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    number: u64,
    activity: Activity,
}

impl Places {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        let (taken, changed) = (Mutex::default(), Arc::default());
        Arc::new(Self { limit, taken, changed })
    }

    /// Waits for a place for a new connection. Another connection may end for it.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Another connection may have ended.
    pub(super) async fn take(self: &Arc<Self>) -> Place {
        loop {
            match self.try_take() {
                Ok(place) => return place,
                Err(pause) => drop(timeout(pause, self.changed.notified()).await),
            }
        }
    }

    /// Returns a place, or the time after which a connection may end for the new one.
    fn try_take(self: &Arc<Self>) -> Result<Place, Duration> {
        let mut taken = self.taken();
        if taken.connections.len() < self.limit {
            let activity = Activity::new(Arc::clone(&self.changed));
            taken.last += 1;
            let number = taken.last;
            taken.connections.insert(number, activity.clone());
            return Ok(Place { places: Arc::clone(self), number, activity });
        }
        if taken.connections.values().any(Activity::is_displaced) {
            return Err(POLL_INTERVAL);
        }
        let standing =
            |connection| Activity::standing(connection).map(|standing| (standing, connection));
        let first =
            taken.connections.values().filter_map(standing).min_by_key(|(standing, _)| *standing);
        let Some((standing, connection)) = first else { return Err(POLL_INTERVAL) };
        let stay = MIN_STAY.saturating_sub(standing.since.elapsed());
        if stay.is_zero() {
            connection.displace();
            return Err(POLL_INTERVAL);
        }
        Err(stay)
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    pub(super) const fn activity(&self) -> &Activity {
        &self.activity
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let returned = self.places.taken().connections.remove(&self.number);
        debug_assert!(returned.is_some(), "a place is returned once");
        self.places.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use tokio::time::advance;

    use super::*;

    /// Waits for a place in virtual time. Ends the connection that is displaced for it, and returns its number.
    async fn displaced_by_next(places: &Arc<Places>, connections: &mut VecDeque<Place>) -> u64 {
        let next = tokio::spawn({
            let places = Arc::clone(places);
            async move { places.take().await }
        });
        let displaced = loop {
            tokio::task::yield_now().await;
            let displaced = connections.iter().position(|place| place.activity.is_displaced());
            if let Some(displaced) = displaced.and_then(|index| connections.remove(index)) {
                break displaced;
            }
            assert!(!next.is_finished(), "no place is free");
            advance(Duration::from_millis(100)).await;
        };
        let number = displaced.number;
        drop(displaced);
        connections.push_back(next.await.unwrap());
        number
    }

    /// Places that are all taken, a second each after the other.
    async fn full(limit: usize) -> (Arc<Places>, VecDeque<Place>) {
        let (places, mut connections) = (Places::new(limit), VecDeque::new());
        for _ in 0..limit {
            connections.push_back(places.take().await);
            advance(Duration::from_secs(1)).await;
        }
        (places, connections)
    }

    #[tokio::test(start_paused = true)]
    async fn clients_without_password_end_first() {
        let (places, mut connections) = full(4).await;
        // The first two are admitted and idle, the second for longer.
        for index in [1, 0] {
            let activity = connections[index].activity();
            let request = activity.begin();
            activity.admit();
            drop(request);
            advance(Duration::from_secs(1)).await;
        }
        // A further request without a password changes nothing.
        drop(connections[2].activity().begin());

        assert_eq!(displaced_by_next(&places, &mut connections).await, 3);
        assert_eq!(displaced_by_next(&places, &mut connections).await, 4);
        // The others are idle for less time.
        for expected in [2, 1] {
            for place in &connections {
                place.activity().admit();
            }
            assert_eq!(displaced_by_next(&places, &mut connections).await, expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_waits_for_a_response_keeps_its_place() {
        let (places, mut connections) = full(2).await;
        let activities =
            connections.iter().map(|place| place.activity().clone()).collect::<Vec<_>>();
        let mut requests: Vec<_> = activities.iter().map(Activity::begin).collect();
        activities.iter().for_each(Activity::admit);
        requests[1].answered();

        let mut next = std::pin::pin!(places.take());
        let waits = timeout(Duration::from_secs(3600), next.as_mut()).await;
        assert!(waits.is_err() && !activities.iter().any(Activity::is_displaced));

        // Its response has been sent.
        drop(requests.pop());
        tokio::select! {
            biased;
            _ = next.as_mut() => panic!("no place is free"),
            () = activities[1].is_over() => {}
        }
        connections.pop_back();
        next.await;
    }
}
