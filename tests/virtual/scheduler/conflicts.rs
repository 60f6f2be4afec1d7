//! Replicas that differ in what they know of a job.

use std::sync::mpsc;

use tower_redlock::{
    Job, Schedule,
    node::{Answer, ClaimOp, ClaimsAnswer, Node, Op, Reply},
    scheduler::{JobConflict, JobEvent, JobEventKind},
};

use crate::scheduler::{
    fixture::{Fixture, HOUR, Host, MINUTE, MS, RunningScheduler, SECOND},
    log_lines::Lines,
    wire::Fate,
};

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

    fn job(host: &Host, name: &'static str) -> Job {
        host.job(name, Schedule::every(HOUR), MS)
    }

    /// Two services campaign under one name.
    fn services(fixture: &Fixture, ours: &[&'static str]) -> [RunningScheduler; 2] {
        let (bills, mails) = (fixture.host("bills-1"), fixture.host("mails-1"));
        let leads = bills.start_led([job(&bills, "bill"), job(&bills, "clean")]);
        fixture.clock.settle();
        let stands_by = mails.start_led(ours.iter().map(|name| job(&mails, name)));
        [leads, stands_by]
    }

    #[test]
    fn job_that_runs_nowhere_is_reported() {
        Lines::during(|lines| {
            let fixture = Fixture::new();
            let [mut leads, mut stands_by] = services(&fixture, &["clean", "mail"]);
            fixture.advance(80 * SECOND);
            let conflicts = new_conflicts(&mut stands_by);
            let [(job, JobConflict::NotLed { by, leader, .. })] = &conflicts[..] else {
                panic!("{conflicts:?}")
            };
            assert_eq!((&**job, &**by, &**leader), ("mail", "bills-1", "x"));
            let text = finding(&stands_by, "mail").unwrap();
            assert!(text.starts_with("the job runs nowhere: bills-1 leads"), "{text}");
            assert_eq!(finding(&stands_by, "clean"), None);
            assert_eq!(lines.count("WARN", &["job=mail", "runs nowhere"]), 1);
            assert_eq!(new_conflicts(&mut leads), []);
            fixture.advance(55 * MINUTE);
            assert_eq!(new_conflicts(&mut stands_by), []);
            fixture.advance(20 * MINUTE);
            assert_eq!(new_conflicts(&mut stands_by).len(), 1, "again after an hour");
        });
    }

    #[test]
    fn finding_ends_with_the_leaders_job() {
        let fixture = Fixture::new();
        let [leads, stands_by] = services(&fixture, &["mail"]);
        fixture.advance(80 * SECOND);
        assert!(finding(&stands_by, "mail").is_some());
        leads.handle.add(Job::new("mail", Schedule::every(HOUR), |_| async {})).unwrap();
        fixture.advance(15 * MINUTE);
        assert_eq!(finding(&stands_by, "mail"), None);
    }

    #[test]
    fn new_leader_knows_its_jobs_run() {
        let fixture = Fixture::new();
        let bills = fixture.host("bills-1");
        let _leads = bills.start_led([job(&bills, "bill")]);
        fixture.clock.settle();
        let mails = fixture.host("mails-1");
        let stands_by = mails.start_led([job(&mails, "mail")]);
        fixture.advance(80 * SECOND);
        assert!(finding(&stands_by, "mail").is_some());
        bills.crash();
        fixture.advance(MINUTE);
        assert!(stands_by.handle.is_active());
        assert_eq!(finding(&stands_by, "mail"), None);
    }

    /// The list is a former leader's, as the new one could not store its own.
    #[test]
    fn former_leaders_list_counts_nothing() {
        let fixture = Fixture::new();
        let [bills, first, second] = ["bills-1", "mails-1", "mails-2"].map(|it| fixture.host(it));
        let _bills = bills.start_led([job(&bills, "bill")]);
        fixture.clock.settle();
        first.wire.apply(
            Fate::Refused,
            |_, op| matches!(op, Op::Claim(ClaimOp { job, .. }) if job.contains("leader:")),
        );
        let leads = first.start_led([job(&first, "mail")]);
        bills.crash();
        fixture.advance(MINUTE);
        assert!(leads.handle.is_active());
        let mut stands_by = second.start_led([job(&second, "mail")]);
        fixture.advance(20 * MINUTE);
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
    fn claim_again(host: &Host, zones: Option<&str>) {
        let direct = host.replica.redlock();
        for node in direct.nodes() {
            let claims = answer(&**node, Op::Claims(["j".into()].into()));
            let Answer::Claims(ClaimsAnswer { mut claims, .. }) = claims else { panic!() };
            let mut claim = claims.remove(0).expect("a claim is stored");
            claim.number += 1;
            claim.owner = "old-1".into();
            claim.schedule.as_mut().unwrap().zones = zones.map(Into::into);
            let claim = ClaimOp::new("j".into(), claim.into(), SECOND);
            assert_eq!(answer(&**node, Op::Claim(claim)), Answer::Claimed);
        }
    }

    fn conflicts_after(schedule: impl Into<Schedule>, zones: Option<&str>) -> Vec<JobConflict> {
        let fixture = Fixture::new();
        let host = fixture.host("new-1");
        let mut jobs = host.start([host.job("j", schedule, MS)]);
        fixture.advance(HOUR + MINUTE);
        assert_eq!(new_conflicts(&mut jobs), [], "its own claims");

        claim_again(&host, zones);
        fixture.advance(HOUR);

        assert_eq!(fixture.log.entries().len(), 2, "the same ticks");
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
