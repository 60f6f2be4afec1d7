//! Waits for a future on a thread, without a runtime.

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
};

use super::{
    atomic::{AtomicBool, Ordering},
    thread,
};

/// Polls a future on this thread until it is ready. The thread sleeps between the polls.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    block_on_with(future, thread::park)
}

/// Polls a future on this thread until it is ready. Between the polls, calls `park` until the future is
/// woken: it parks the thread, perhaps with a timeout.
pub(crate) fn block_on_with<F: Future>(future: F, mut park: impl FnMut()) -> F::Output {
    let mut future = pin!(future);
    let waker =
        Arc::new(ThreadWaker { thread: thread::current(), is_woken: AtomicBool::new(false) });
    let as_waker = Waker::from(Arc::clone(&waker));
    let mut cx = Context::from_waker(&as_waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
        while !waker.is_woken.swap(false, Ordering::Acquire) {
            park();
        }
    }
}

struct ThreadWaker {
    thread: thread::Thread,
    /// Kept apart from the token of `park`, which code inside the poll may consume.
    is_woken: AtomicBool,
}

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[test]
    fn wake_from_another_thread_ends_the_wait() {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let waking = thread::spawn(move || sender.send(7).unwrap());
        assert_eq!(block_on(receiver), Ok(7));
        waking.join().unwrap();
    }

    #[test]
    fn wake_outlasts_a_park_inside_the_poll() {
        let mut polls = 0;
        block_on(poll_fn(|cx| {
            polls += 1;
            if polls == 2 {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            // Consumes the token of the wake-up.
            thread::park();
            Poll::Pending
        }));
        assert_eq!(polls, 2);
    }
}
