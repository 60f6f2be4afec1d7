//! Replicas that differ in what they know of a job.

use std::{sync::mpsc, time::Duration};

use tower_redlock::{
    Job, Schedule,
    node::{Answer, ClaimOp, ClaimsAnswer, Node, Op, Reply},
    scheduler::{JobConflict, JobEvent, JobEventKind},
};
use tracing::Level;

use crate::scheduler::{
    scene::{MS, RunningScheduler, SECOND, Scene, Site},
    site::Fate,
    warnings::with_log,
};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

/// The conflicts among the events since the last call.
fn new_conflicts(jobs: &mut RunningScheduler) -> Vec<(String, JobConflict)> {
    let conflict = |event: JobEvent| match event.kind {
        JobEventKind::Conflict(conflict) => Some((event.job.to_string(), conflict)),
        _ => None,
    };
    jobs.new_events().into_iter().filter_map(conflict).collect()
}

fn finding(jobs: &RunningScheduler, job: &str) -> Option<String> {
    jobs.status(job).finding.map(|finding| finding.to_string())
}

mod of_leader {
    use super::*;

    fn job(site: &Site, name: &'static str) -> Job {
        site.job(name, Schedule::every(HOUR), MS)
    }

    /// Two services campaign under one name.
    fn services(scene: &Scene, ours: &[&'static str]) -> [RunningScheduler; 2] {
        let (bills, mails) = (scene.site("bills-1"), scene.site("mails-1"));
        let leads = bills.start_led([job(&bills, "bill"), job(&bills, "clean")]);
        scene.clock.settle();
        let stands_by = mails.start_led(ours.iter().map(|name| job(&mails, name)));
        [leads, stands_by]
    }

    #[test]
    fn job_that_runs_nowhere_is_reported() {
        with_log(|log| {
            let scene = Scene::new();
            let [mut leads, mut stands_by] = services(&scene, &["clean", "mail"]);

            scene.advance(80 * SECOND);

            let conflicts = new_conflicts(&mut stands_by);
            let [(job, JobConflict::NotLed { by, leader, .. })] = &conflicts[..] else {
                panic!("{conflicts:?}")
            };
            assert_eq!((&**job, &**by, &**leader), ("mail", "bills-1", "x"));
            let text = finding(&stands_by, "mail").unwrap();
            assert!(text.starts_with("the job runs nowhere: bills-1 leads"), "{text}");
            assert_eq!(finding(&stands_by, "clean"), None);
            assert_eq!(log.count(Level::WARN, &["job=mail", "runs nowhere"]), 1);
            assert_eq!(new_conflicts(&mut leads), []);

            scene.advance(55 * MINUTE);
            assert_eq!(new_conflicts(&mut stands_by), []);
            scene.advance(20 * MINUTE);
            assert_eq!(new_conflicts(&mut stands_by).len(), 1, "again after an hour");
        });
    }

    #[test]
    fn finding_ends_with_the_leaders_job() {
        let scene = Scene::new();
        let [leads, stands_by] = services(&scene, &["mail"]);
        scene.advance(80 * SECOND);
        assert!(finding(&stands_by, "mail").is_some());

        leads.handle.add(Job::new("mail", Schedule::every(HOUR), |_| async {})).unwrap();
        scene.advance(15 * MINUTE);

        assert_eq!(finding(&stands_by, "mail"), None);
    }

    #[test]
    fn new_leader_knows_its_jobs_run() {
        let scene = Scene::new();
        let bills = scene.site("bills-1");
        let _leads = bills.start_led([job(&bills, "bill")]);
        scene.clock.settle();
        let mails = scene.site("mails-1");
        let stands_by = mails.start_led([job(&mails, "mail")]);
        scene.advance(80 * SECOND);
        assert!(finding(&stands_by, "mail").is_some());

        bills.crash();
        scene.advance(MINUTE);

        assert!(stands_by.handle.leads());
        assert_eq!(finding(&stands_by, "mail"), None);
    }

    /// The list is a former leader's, as the new one could not store its own.
    #[test]
    fn former_leaders_list_counts_nothing() {
        let scene = Scene::new();
        let [bills, first, second] = ["bills-1", "mails-1", "mails-2"].map(|it| scene.site(it));
        let _bills = bills.start_led([job(&bills, "bill")]);
        scene.clock.settle();
        first.wire.judge(|_, op| match op {
            Op::Claim(ClaimOp { job, .. }) if job.contains("leader:") => Fate::Refused,
            _ => Fate::Passes,
        });
        let leads = first.start_led([job(&first, "mail")]);
        bills.crash();
        scene.advance(MINUTE);
        assert!(leads.handle.leads());

        let mut stands_by = second.start_led([job(&second, "mail")]);
        scene.advance(20 * MINUTE);

        assert_eq!(new_conflicts(&mut stands_by), []);
    }
}

mod of_zones {
    use super::*;

    fn hourly_in_berlin() -> Schedule {
        Schedule::cron("0 * * * *").unwrap().in_tz("Europe/Berlin").unwrap().into()
    }

    fn answer(node: &dyn Node, op: Op) -> Answer {
        let (tell, answers) = mpsc::channel();
        node.send(op, Reply::from_fn(move |answer| tell.send(answer).unwrap()));
        answers.recv().unwrap().unwrap()
    }

    /// Stores the latest claim again on all nodes, as by a program with another database.
    fn claim_again(site: &Site, zones: Option<&str>) {
        let direct = site.replica.redlock();
        for node in direct.nodes() {
            let claims = answer(&**node, Op::Claims(["j".into()].into()));
            let Answer::Claims(ClaimsAnswer { mut claims, .. }) = claims else { panic!() };
            let mut claim = claims.remove(0).expect("a claim");
            claim.number += 1;
            claim.owner = "old-1".into();
            claim.schedule.as_mut().unwrap().zones = zones.map(Into::into);
            let claim = ClaimOp::new("j".into(), claim.into(), SECOND);
            assert_eq!(answer(&**node, Op::Claim(claim)), Answer::Claimed);
        }
    }

    fn conflicts_after(schedule: impl Into<Schedule>, zones: Option<&str>) -> Vec<JobConflict> {
        let scene = Scene::new();
        let site = scene.site("new-1");
        let mut jobs = site.start([site.job("j", schedule, MS)]);
        scene.advance(HOUR + MINUTE);
        assert_eq!(new_conflicts(&mut jobs), [], "its own claims");

        claim_again(&site, zones);
        scene.advance(HOUR);

        assert_eq!(scene.log.entries().len(), 2, "the same ticks");
        new_conflicts(&mut jobs).into_iter().map(|(_, conflict)| conflict).collect()
    }

    #[test]
    fn other_version_is_reported() {
        let found = conflicts_after(hourly_in_berlin(), Some("2020a"));

        let [JobConflict::ZoneDatabase { by, own, other, .. }] = &found[..] else {
            panic!("{found:?}")
        };
        assert_eq!((&**by, &**other), ("old-1", "2020a"));
        assert_eq!(Some(&**own), tower_redlock::schedule::zone_database_version());
        let text = found[0].to_string();
        assert!(text.contains("2020a by old-1") && text.contains("twice"), "{text}");
    }

    #[test]
    fn claims_without_version_are_well() {
        assert_eq!(conflicts_after(hourly_in_berlin(), None), []);
    }

    #[test]
    fn utc_depends_on_no_database() {
        assert_eq!(conflicts_after(Schedule::cron("0 * * * *").unwrap(), Some("2020a")), []);
    }
}
