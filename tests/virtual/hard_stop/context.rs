//! The current context is set around each poll only.

use std::{
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    task::Poll,
};

use tower_redlock::LockContext;

use crate::hard_stop::fixture::{Scene, poll};

#[test]
fn nested_guards_restore_the_context() {
    let Scene { redlock, .. } = Scene::without_timers(5);
    let name = || LockContext::current().map(|cx| cx.resource().to_string());
    let inner = redlock.clone();
    let mut run = pin!(redlock.lock("outer").run(|_| async move {
        assert_eq!(name().as_deref(), Some("outer"));
        let mut run = pin!(inner.lock("inner").run(|_| async move {
            let mut waited = false;
            poll_fn(|_| {
                assert_eq!(name().as_deref(), Some("inner"));
                if std::mem::replace(&mut waited, true) { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        }));
        poll_fn(|cx| {
            let polled = run.as_mut().poll(cx);
            assert_eq!(name().as_deref(), Some("outer"), "between two polls of the inner work");
            polled
        })
        .await
        .unwrap();
        assert_eq!(name().as_deref(), Some("outer"));
        name()
    }));
    assert!(poll(run.as_mut()).is_pending());
    assert_eq!(name(), None, "between two polls of the outer work");
    assert_eq!(poll(run.as_mut()), Poll::Ready(Ok(Some("outer".into()))));
    assert_eq!(name(), None);
}

#[test]
fn a_panic_restores_the_context() {
    let Scene { redlock, nodes, .. } = Scene::without_timers(5);
    let outer = redlock.clone();
    let mut run = pin!(outer.lock("outer").run(|_| async move {
        let mut inner = Box::pin(redlock.lock("inner").run(|_| async { panic!("on purpose") }));
        catch_unwind(AssertUnwindSafe(|| poll(inner.as_mut()))).unwrap_err();
        drop(inner);
        LockContext::current().map(|cx| cx.resource().to_string())
    }));
    assert_eq!(poll(run.as_mut()), Poll::Ready(Ok(Some("outer".into()))));
    assert!(LockContext::current().is_none());
    let (redlock, _) = (outer, nodes);
    let mut run = Box::pin(redlock.lock("x").run(|_| async { panic!("on purpose") }));
    catch_unwind(AssertUnwindSafe(|| poll(run.as_mut()))).unwrap_err();
    assert!(LockContext::current().is_none());
}
