//! Jobs that are forgotten.

use std::time::Duration;

use futures_util::TryStreamExt as _;
use tower_redlock::{LockError, Schedule, node::Op, scheduler::ControlError};

use crate::scheduler::{
    fleet_control::done,
    scene::{SECOND, Scene, Site},
    site::Fate,
};

fn forget(scene: &Scene, site: &Site) -> Result<bool, ControlError> {
    let redlock = site.redlock.clone();
    done(scene, async move { redlock.forget_job("j").await })
}

/// What the nodes keep of the job.
fn kept(scene: &Scene, site: &Site) -> (usize, bool, usize) {
    let redlock = site.redlock.clone();
    done(scene, async move {
        let claimed: Vec<_> = redlock.claimed_jobs().try_collect().await.unwrap();
        let control = redlock.job_control("j").await.unwrap();
        let history = redlock.job_history("j").await.unwrap();
        (claimed.len(), control.paused.is_some(), history.len())
    })
}

#[test]
fn removed_job_is_forgotten() {
    let scene = Scene::new();
    let site = scene.site("a");
    let job = || site.job("j", Schedule::every(10 * SECOND), 2 * SECOND);
    let jobs = site.start([job()]);
    scene.advance(15 * SECOND);
    done(&scene, site.redlock.pause_job("j")).unwrap();
    assert_eq!(kept(&scene, &site), (1, true, 1), "documents are not listed as jobs");
    let handle = jobs.handle.clone();
    done(&scene, async move { handle.remove("j").await }).unwrap();
    assert_eq!(forget(&scene, &site), Ok(true));
    assert_eq!(kept(&scene, &site), (0, false, 0));
    assert_eq!(forget(&scene, &site), Ok(false));
    jobs.handle.add(job()).unwrap();
    scene.advance(10 * SECOND);
    assert_eq!(scene.log.entries().len(), 2, "it begins anew");
}

#[test]
fn running_job_is_not_forgotten() {
    let scene = Scene::new();
    let (a, b) = (scene.site("a"), scene.site("b"));
    let _jobs = a.start([a.job("j", Schedule::every(10 * SECOND), 5 * SECOND)]);
    scene.advance(11 * SECOND);
    let error = forget(&scene, &b).unwrap_err();
    let ControlError::Nodes { error: cause, .. } = &error else { panic!("{error}") };
    let is_held = matches!(**cause, LockError::Held { .. });
    assert!(is_held, "{error}");
    assert_eq!(kept(&scene, &b).0, 1);
}

#[test]
fn error_names_unconfirmed_nodes() {
    let scene = Scene::new();
    let (a, b) = (scene.site("a"), scene.site("b"));
    let jobs = a.start([a.job("j", Schedule::every(10 * SECOND), Duration::ZERO)]);
    scene.advance(15 * SECOND);
    let handle = jobs.handle.clone();
    done(&scene, async move { handle.remove("j").await }).unwrap();
    b.wire.judge(|node, op| match op {
        Op::ForgetJob(_) if node == 3 => Fate::Refused,
        _ => Fate::Passes,
    });
    let error = forget(&scene, &b).unwrap_err();
    let ControlError::Incomplete { votes, .. } = &error else { panic!("{error}") };
    let name = b.redlock.nodes()[3].name().to_string();
    assert!(error.to_string().contains(&name), "{error}");
    assert_eq!(votes.iter().count(), 5);
    b.wire.calm();
    assert_eq!(forget(&scene, &b), Ok(true), "the rest of it");
    assert_eq!(forget(&scene, &b), Ok(false));
}
