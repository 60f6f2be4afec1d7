//! Promises and claims of jobs' ticks.

use std::time::Duration;

use tower_redlock::node::{
    Answer, ClaimsAnswer, ForgetJobOp, JobDocument, Op, ScheduleMark, TickClaim,
};
use tower_redlock::{Resource, error::Reason};

use crate::fixture::{
    Resp,
    jobs::{
        CLAIMED, Response, SUPERSEDED, ask, claim, claims, of_tick, prepare, promised, run, stored,
    },
};

use super::Subject;
use super::contender::released;

on_both! {
    unclaimed_job_has_no_claim
    promise_refuses_smaller_tokens
    claim_implies_a_promise
    refused_operations_change_nothing
    later_claim_replaces_the_earlier
    same_token_stores_the_end
    higher_number_wins_within_a_token
    schedule_marks_are_kept_whole
    previous_runs_are_kept_whole
    owners_are_returned_unchanged
    similar_job_names_stay_separate
    claims_follow_the_requested_order
    jobs_and_locks_are_separate
    documents_are_kept_whole
    job_is_forgotten_whole
}

async fn send(subject: &Subject, op: Op) -> Response {
    ask(subject.node(), op).await
}

async fn unclaimed_job_has_no_claim(subject: &Subject) {
    assert_eq!(send(subject, claims(["a"])).await, stored([None]));
    assert_eq!(send(subject, prepare("a", 1)).await, promised(None));
    assert_eq!(send(subject, claims(["a"])).await, stored([None]), "a promise is no claim");
}

async fn promise_refuses_smaller_tokens(subject: &Subject) {
    // The largest tokens: compared exactly, not as floating-point numbers.
    let t = (1 << 53) - 2;
    assert_eq!(send(subject, prepare("a", t)).await, promised(None));
    assert_eq!(send(subject, prepare("a", t - 1)).await, SUPERSEDED);
    assert_eq!(send(subject, claim("a", &of_tick(t - 1, 9))).await, SUPERSEDED);
    assert_eq!(send(subject, prepare("a", t)).await, promised(None), "a repeated token");
    assert_eq!(send(subject, prepare("a", t + 1)).await, promised(None));
    assert_eq!(send(subject, prepare("a", t)).await, SUPERSEDED);
    assert_eq!(send(subject, claim("a", &of_tick(t, 9))).await, SUPERSEDED);
    assert_eq!(send(subject, prepare("b", 1)).await, promised(None), "another job");
}

async fn claim_implies_a_promise(subject: &Subject) {
    let kept = of_tick(10, 100);
    // There is no promise before it, as this node was not among those that promised.
    assert_eq!(send(subject, claim("a", &kept)).await, CLAIMED);
    assert_eq!(send(subject, prepare("a", 9)).await, SUPERSEDED);
    assert_eq!(send(subject, claim("a", &of_tick(9, 200))).await, SUPERSEDED);
    assert_eq!(send(subject, prepare("a", 10)).await, promised(Some(&kept)));
}

async fn refused_operations_change_nothing(subject: &Subject) {
    let kept = of_tick(10, 100);
    assert_eq!(send(subject, claim("a", &kept)).await, CLAIMED);
    assert_eq!(send(subject, prepare("a", 20)).await, promised(Some(&kept)));
    // The client with the older token was slow, and its claim arrived before the promise.
    assert_eq!(send(subject, claim("a", &of_tick(15, 200))).await, SUPERSEDED);
    assert_eq!(send(subject, prepare("a", 15)).await, SUPERSEDED);
    assert_eq!(send(subject, claims(["a"])).await, stored([Some(&kept)]));
    assert_eq!(send(subject, prepare("a", 20)).await, promised(Some(&kept)));
    assert_eq!(send(subject, claim("a", &of_tick(20, 200))).await, CLAIMED);
}

async fn later_claim_replaces_the_earlier(subject: &Subject) {
    for (token, tick) in [(9, 900), (10, 1_000), (11, 100)] {
        let kept = of_tick(token, tick);
        assert_eq!(send(subject, claim("a", &kept)).await, CLAIMED);
        assert_eq!(send(subject, claims(["a"])).await, stored([Some(&kept)]), "tick {tick}");
    }
}

async fn same_token_stores_the_end(subject: &Subject) {
    let begun = of_tick(10, 100);
    let mut ended = begun.clone();
    ended.run = begun.run.ended(Duration::from_millis(105));
    assert_eq!(send(subject, claim("a", &begun)).await, CLAIMED);
    assert_eq!(send(subject, claim("a", &ended)).await, CLAIMED);
    assert_eq!(send(subject, claims(["a"])).await, stored([Some(&ended)]));
    assert_eq!(send(subject, prepare("a", 11)).await, promised(Some(&ended)));
    assert_eq!(send(subject, claim("a", &ended)).await, SUPERSEDED, "superseded by the promise");
}

async fn higher_number_wins_within_a_token(subject: &Subject) {
    let begun = of_tick(10, 100);
    let back = of_tick(10, 90).numbered(1);
    assert_eq!(send(subject, claim("a", &begun)).await, CLAIMED);
    assert_eq!(send(subject, claim("a", &begun)).await, CLAIMED, "a repetition");
    assert_eq!(send(subject, claim("a", &back)).await, CLAIMED);
    // The claim was sent earlier and is delivered late.
    assert_eq!(send(subject, claim("a", &begun)).await, SUPERSEDED);
    assert_eq!(send(subject, claim("a", &back)).await, CLAIMED);
    assert_eq!(send(subject, claim("a", &back.clone().numbered(11))).await, CLAIMED);
    assert_eq!(send(subject, claim("a", &back.clone().numbered(9))).await, SUPERSEDED);
    let last = back.numbered(11);
    assert_eq!(send(subject, claims(["a"])).await, stored([Some(&last)]));
    assert_eq!(send(subject, prepare("a", 10)).await, promised(Some(&last)));
    assert_eq!(send(subject, claim("a", &of_tick(11, 200))).await, CLAIMED, "another token");
}

async fn schedule_marks_are_kept_whole(subject: &Subject) {
    let fingerprints = [1, 0xabc, u64::MAX];
    for (token, (fingerprint, by)) in (10..).zip(fingerprints.into_iter().zip(["", "a b", "日本#"]))
    {
        let mark = ScheduleMark::new(fingerprint, Duration::from_millis(token), by.into());
        let kept = of_tick(token, 100).by_schedule(mark);
        assert_eq!(send(subject, claim("a", &kept)).await, CLAIMED);
        assert_eq!(send(subject, claims(["a"])).await, stored([Some(&kept)]));
    }
}

async fn previous_runs_are_kept_whole(subject: &Subject) {
    let mut again = run(1 << 42);
    again.attempt = u32::MAX;
    let on_demand = run(0);
    let befores =
        [None, Some(run(99)), Some(again), Some(on_demand), Some(run(99).ended(run(100).since))];
    for (token, before) in (10..).zip(befores) {
        let mut kept = of_tick(token, 100);
        (kept.run, kept.before) = (again, before.map(Into::into));
        assert_eq!(send(subject, claim("a", &kept)).await, CLAIMED);
        assert_eq!(send(subject, claims(["a"])).await, stored([Some(&kept)]));
    }
}

async fn owners_are_returned_unchanged(subject: &Subject) {
    let owners = [
        "svc@host:7",
        "",
        " ",
        "two  words ",
        "7 8 9",
        "line\r\nbreak",
        "nul\0",
        "日本 %s",
        "$1\\\"",
    ];
    for (token, owner) in (10..).zip(owners) {
        let mut kept = of_tick(token, 100);
        kept.owner = owner.into();
        assert_eq!(send(subject, claim("a", &kept)).await, CLAIMED);
        assert_eq!(send(subject, claims(["a"])).await, stored([Some(&kept)]), "{owner:?}");
    }
}

/// Similar names, and the longest ones.
fn names() -> Vec<String> {
    let long = "x".repeat(Resource::MAX_NAME_BYTES - 1);
    let odd = [
        "a",
        "a ",
        "A",
        "",
        ":",
        "claim:a",
        "promise:a",
        "*",
        "a\nb",
        "a\0",
        "ä",
        "tag",
        "7",
        "%d",
    ];
    odd.map(str::to_owned)
        .into_iter()
        .chain([format!("{long}1"), format!("{long}2"), long])
        .collect()
}

async fn similar_job_names_stay_separate(subject: &Subject) {
    let names = names();
    let kept: Vec<TickClaim> =
        (10..).take(names.len()).map(|token| of_tick(token, token)).collect();
    for (name, kept) in names.iter().zip(&kept) {
        assert_eq!(send(subject, prepare(name, kept.token)).await, promised(None), "{name:?}");
        assert_eq!(send(subject, claim(name, kept)).await, CLAIMED, "{name:?}");
    }
    for (name, kept) in names.iter().zip(&kept) {
        assert_eq!(
            send(subject, prepare(name, kept.token)).await,
            promised(Some(kept)),
            "{name:?}"
        );
        assert_eq!(send(subject, prepare(name, kept.token - 1)).await, SUPERSEDED, "{name:?}");
    }
}

async fn claims_follow_the_requested_order(subject: &Subject) {
    let names: Vec<String> = (0..Op::MAX_JOBS_A_CALL).map(|i| format!("job {i}")).collect();
    let kept = |i: usize| (!i.is_multiple_of(3)).then(|| of_tick(i as u64, 7 * i as u64));
    for (i, name) in names.iter().enumerate() {
        if let Some(kept) = kept(i) {
            assert_eq!(send(subject, claim(name, &kept)).await, CLAIMED);
        }
    }
    let expected: Vec<_> = (0..names.len()).map(kept).collect();
    let response = send(subject, claims(names.iter().map(String::as_str))).await;
    assert_eq!(response, Ok(Answer::Claims(ClaimsAnswer::new(0, expected.clone()))));
    let backwards: Vec<_> = expected.into_iter().rev().collect();
    let response = send(subject, claims(names.iter().rev().map(String::as_str))).await;
    assert_eq!(response, Ok(Answer::Claims(ClaimsAnswer::new(0, backwards))));
    let response = send(subject, claims(["job 1", "job 0", "job 1", "unheard of"])).await;
    assert_eq!(response, stored([kept(1).as_ref(), None, kept(1).as_ref(), None]));
}

async fn jobs_and_locks_are_separate(subject: &Subject) {
    let holder = subject.contender("a");
    let fence = super::fence_of(&holder.acquire_with(super::now_token()).await);
    assert_eq!(fence, 0);
    assert_eq!(send(subject, prepare("a", 1)).await, promised(None), "tokens are not compared");
    assert_eq!(send(subject, claim("a", &of_tick(1, 1))).await, CLAIMED);
    assert_eq!(holder.release().await, released(true, false));
    assert_eq!(send(subject, claims(["a"])).await, stored([Some(&of_tick(1, 1))]));
}

async fn documents_are_kept_whole(subject: &Subject) {
    let register = JobDocument::Control.register("a");
    let longest = "ä\n\0 #1".repeat(JobDocument::MAX_BYTES / 8);
    for (number, text) in ["1\n", "1\np 0 5 0 1 b \n", &longest].into_iter().enumerate() {
        let number = u32::try_from(number).expect("a few");
        let kept = TickClaim::of_document(9, number, "me".into(), text.into());
        assert_eq!(send(subject, claim(&register, &kept)).await, CLAIMED);
        assert_eq!(send(subject, claims([&*register])).await, stored([Some(&kept)]), "{text:?}");
        let older = TickClaim::of_document(9, number.saturating_sub(1), "me".into(), "x".into());
        let answer = send(subject, claim(&register, &older)).await;
        assert_eq!(answer, if number == 0 { CLAIMED } else { SUPERSEDED });
        assert_eq!(send(subject, claim(&register, &kept)).await, CLAIMED);
    }
    assert_eq!(send(subject, claims(["a"])).await, stored([None]), "it is no claim of a tick");
}

async fn job_is_forgotten_whole(subject: &Subject) {
    let forget = |job: &str, token| {
        Op::ForgetJob(ForgetJobOp::new(job.into(), token, Duration::from_secs(30)))
    };
    let documents = [JobDocument::Control, JobDocument::History].map(|it| it.register("a"));
    assert_eq!(send(subject, forget("a", 1)).await, Ok(Answer::Forgotten(false)));
    let kept = of_tick(9, 9);
    assert_eq!(send(subject, claim("a", &kept)).await, CLAIMED);
    assert_eq!(send(subject, claim("b", &kept)).await, CLAIMED);
    for register in &documents {
        let document = TickClaim::of_document(20, 0, "me".into(), "1\n".into());
        assert_eq!(send(subject, claim(register, &document)).await, CLAIMED);
    }
    assert_eq!(send(subject, forget("a", 8)).await, SUPERSEDED);
    assert_eq!(send(subject, claims(["a"])).await, stored([Some(&kept)]));
    assert_eq!(send(subject, forget("a", 9)).await, Ok(Answer::Forgotten(true)));
    let names = ["a", &documents[0], &documents[1], "b"];
    assert_eq!(send(subject, claims(names)).await, stored([None, None, None, Some(&kept)]));
    assert_eq!(send(subject, prepare("a", 1)).await, promised(None), "the promise as well");
    assert_eq!(send(subject, prepare(&documents[0], 1)).await, promised(None));
}

/// Checks a node that keeps claims of the maximum number of jobs.
async fn assert_full(subject: &Subject, known: &str) {
    for op in [prepare("new", 9), claim("new", &of_tick(9, 9))] {
        assert_eq!(send(subject, op).await, Err(Reason::TooManyJobs));
    }
    assert_eq!(send(subject, claims(["new"])).await, stored([None]));
    let kept = of_tick(9, 9);
    assert_eq!(send(subject, claim(known, &kept)).await, CLAIMED, "a known job");
    assert_eq!(send(subject, prepare(known, 10)).await, promised(Some(&kept)));
    assert_eq!(send(subject, prepare("new", 9)).await, Err(Reason::TooManyJobs));
}

#[tokio::test]
async fn embedded_node_limits_its_jobs() {
    let subject = Subject::embedded();
    for i in 0..Op::MAX_REGISTERS {
        assert_eq!(send(&subject, prepare(&format!("job {i}"), 1)).await, promised(None));
    }
    assert_full(&subject, "job 7").await;
}

#[tokio::test]
async fn server_limits_its_jobs() {
    let subject = Subject::server().await;
    // All but the last.
    let fill = "for i = 2, ARGV[1] do redis.call('HSET', KEYS[1], 'promise:job ' .. i, 1, \
                'claim:job ' .. i, '1 1 1 1 0 0 0 0 0 me') end return redis.call('HLEN', KEYS[1])";
    let jobs = Op::MAX_REGISTERS.to_string();

    let fields = subject.redis().cli(&["EVAL", fill, "1", "redlock:marks", &jobs]);

    assert_eq!(fields, Resp::Int(2 * i64::try_from(Op::MAX_REGISTERS).unwrap() - 2));
    assert_eq!(send(&subject, claim("job 1", &of_tick(1, 1))).await, CLAIMED);
    assert_full(&subject, "job 7").await;
}
