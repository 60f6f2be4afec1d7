//! A diagnosis as JSON.

use serde_json::{Value, json};

use super::{Findings, MS, SECOND, text};
use crate::{error::Reason, node::ClockOffset};

#[test]
fn json_has_names_and_units() {
    let mut found = Findings::healthy(3);
    found.health[0].clock = Some(ClockOffset::new(-7, MS));
    found.health[0].max_ttl = Some(10 * SECOND);
    found.down(1, Reason::NotConnected(text("refused")));
    found.down(2, Reason::ReadOnly);
    let diagnosis = found.diagnosis();

    let json = serde_json::to_value(&diagnosis).unwrap();

    assert_eq!(json["verdict"], "no_quorum");
    assert_eq!(json["summary"], diagnosis.summary());
    assert_eq!((&json["voting"], &json["quorum"]), (&1.into(), &2.into()));

    let node = &json["nodes"][0];
    assert_eq!(node["name"], "node-0");
    assert_eq!((&node["votes"], &node["state"]), (&true.into(), &"voting".into()));
    assert_eq!((&node["vote_micros"], &node["max_ttl_ms"]), (&1_000.into(), &10_000.into()));
    assert_eq!(node["clock_ahead_micros"], -7);
    assert_eq!(node["clock_uncertainty_micros"], 1_000);
    assert_eq!((&node["lock_keys"], &node["version"]), (&0.into(), &Value::Null));

    let states: Vec<_> = json["nodes"].as_array().unwrap().iter().map(|n| &n["state"]).collect();
    assert_eq!(states, ["voting", "down", "down"]);
    assert_eq!(json["nodes"][2]["role"], "replica");

    let advice = &diagnosis.advice[0];
    let expected = json!({
        "severity": "problem",
        "code": "down",
        "node": "node-1",
        "what": advice.what,
        "todo": advice.todo,
    });

    assert_eq!(json["advice"][0], expected);
}

#[test]
fn json_has_each_of_several_sets() {
    let mut found = Findings::healthy(6);
    assert_eq!(serde_json::to_value(found.diagnosis()).unwrap().get("sets"), None);
    found.terms.sets = vec![3, 3];
    found.down(4, Reason::TimedOut);

    let json = serde_json::to_value(found.diagnosis()).unwrap();

    assert_eq!(json["sets"].as_array().map(Vec::len), Some(2));
    assert_eq!(
        (&json["sets"][0]["verdict"], &json["sets"][0]["voting"]),
        (&"healthy".into(), &3.into())
    );
    assert_eq!(json["sets"][1]["nodes"][1]["state"], "down");
}
