//! The soft deadline, at which guarded work should end by itself.

use std::{
    future::{Future, IntoFuture, poll_fn},
    pin::{Pin, pin},
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll, Waker},
    time::Duration,
};

use tower_redlock::{Lock, Redlock, lock::Stopping};

use crate::hard_stop::fixture::{NANO, Scene, TTL, VALIDITY, Woken, just_before, poll};

/// A tenth of the validity, and the rest of it.
const MARGIN: Duration = Duration::from_micros(989_800);
const BEFORE: Duration = Duration::from_micros(8_908_200);

fn taken(redlock: &Redlock) -> Lock {
    let request = redlock.lock("x").auto_extend(false).into_future();
    let Poll::Ready(Ok(lock)) = poll(pin!(request)) else { panic!("not taken") };
    lock
}

fn stops(stopping: &mut Stopping) -> bool {
    poll(Pin::new(stopping)).is_ready()
}

#[test]
fn default_margin_is_a_tenth() {
    let Scene { clock, redlock, .. } = Scene::without_timers(5);
    let lock = taken(&redlock);
    let mut stopping = lock.context().stopping();
    assert!(!stops(&mut stopping));
    clock.advance(just_before(BEFORE));
    assert!(!stops(&mut stopping) && !stops(&mut stopping.clone()));
    clock.advance(NANO);
    assert!(stops(&mut stopping.clone()) && stops(&mut stopping));
    assert!(lock.is_valid(), "the hard stop is later");
}

#[test]
fn margin_is_at_most_half() {
    let fixture = Scene::without_timers(5);
    let Scene { clock, redlock, .. } =
        fixture.with(|builder| builder.stop_margin(Duration::from_secs(4)));
    let lock = taken(&redlock);
    clock.advance(just_before(Duration::from_millis(5_898)));
    assert!(!stops(&mut lock.context().stopping()));
    clock.advance(NANO);
    assert!(stops(&mut lock.context().stopping()));
    drop(lock);
    let request = redlock.lock("x").ttl(Duration::from_secs(1)).auto_extend(false);
    let Poll::Ready(Ok(lock)) = poll(pin!(request.into_future())) else { panic!("not taken") };
    let half = Duration::from_millis(988 / 2);
    clock.advance(just_before(half));
    assert!(!stops(&mut lock.context().stopping()));
    clock.advance(NANO);
    assert!(stops(&mut lock.context().stopping()));
}

#[test]
fn a_renewal_moves_the_soft_deadline() {
    let Scene { clock, redlock, .. } = Scene::without_timers(5);
    let lock = taken(&redlock);
    let mut stopping = lock.context().stopping();
    clock.advance(VALIDITY / 2);
    assert!(!stops(&mut stopping));
    assert!(matches!(poll(pin!(lock.extend())), Poll::Ready(Ok(_))));
    clock.advance(VALIDITY / 2);
    assert!(!stops(&mut stopping), "it was renewed");
    clock.advance(BEFORE.saturating_sub(VALIDITY / 2));
    assert!(stops(&mut stopping));
}

#[test]
fn margin_precedes_max_hold() {
    let fixture = Scene::without_timers(5);
    let Scene { clock, redlock, .. } = fixture.with(|builder| builder.max_hold(TTL / 2));
    let lock = taken(&redlock);
    clock.advance(just_before((TTL / 2).saturating_sub(MARGIN)));
    assert!(!stops(&mut lock.context().stopping()));
    clock.advance(NANO);
    assert!(stops(&mut lock.context().stopping()));
}

#[test]
fn release_completes_stopping() {
    let Scene { redlock, .. } = Scene::without_timers(5);
    let lock = taken(&redlock);
    let mut stopping = lock.context().stopping();
    let woken = Arc::<Woken>::default();
    let task = Waker::from(Arc::clone(&woken));
    assert!(Pin::new(&mut stopping).poll(&mut Context::from_waker(&task)).is_pending());
    drop(lock);
    assert_eq!(woken.0.load(Ordering::SeqCst), 1);
    assert!(stops(&mut stopping));
}

/// The timers wake the work at the soft deadline, and its result counts.
#[tokio::test]
async fn work_that_stops_is_not_dropped() {
    let Scene { clock, redlock, nodes } = Scene::by_hand(5);
    let moving = clock.clone();

    let saved = redlock
        .lock("x")
        .auto_extend(false)
        .run(|cx| async move {
            let mut stopping = cx.stopping();
            poll_fn(|task| {
                let polled = Pin::new(&mut stopping).poll(task);
                if polled.is_pending() {
                    moving.advance(BEFORE);
                }
                polled
            })
            .await;
            cx.ensure_valid().map(|()| "saved")
        })
        .await;

    assert_eq!(saved, Ok(Ok("saved")));
    assert_eq!(nodes.key_counts(), [0; 5]);
}
