//! Settings of the builder.

use std::time::Duration;

use tower_redlock::{Redlock, RedlockBuilder, error::BuildError, node::EmbeddedNodes};

use crate::bad_input::recorder::{Recorder, build_error};

#[test]
fn no_nodes_are_refused() {
    let error = Redlock::builder().build().unwrap_err();
    assert!(matches!(error, BuildError::NoNodes), "{error:?}");
    assert!(error.to_string().contains("no nodes"));
    let error = Redlock::builder().nodes(Vec::<String>::new()).build().unwrap_err();
    assert!(matches!(error, BuildError::NoNodes), "{error:?}");
}

#[test]
fn an_embedded_set_is_used_alone() {
    type Set<'a> = &'a dyn Fn(RedlockBuilder) -> RedlockBuilder;
    let (one, two) = (EmbeddedNodes::new(3), EmbeddedNodes::new(1));
    let mixtures: [Set<'_>; 4] = [
        &|b| b.nodes(["redis://10.0.0.1"]).nodes_from(&one),
        &|b| b.nodes_from(&one).nodes(["redis://10.0.0.1", "redis://10.0.0.2"]),
        &|b| b.nodes_from(&one).nodes_from(&one.clone()),
        &|b| b.nodes_from(&one).nodes_from(&two),
    ];
    for mix in mixtures {
        let error = build_error(mix);
        assert_eq!(setting_of(&error), "nodes");
        assert!(error.to_string().contains("embedded"), "{error}");
    }

    Redlock::builder().nodes_from(&one).build().unwrap();
}

#[test]
fn invalid_durations_are_named() {
    type Set = fn(RedlockBuilder, Duration) -> RedlockBuilder;
    let settings: [(&str, Set); 4] = [
        ("ttl", |builder, value| builder.ttl(value).max_ttl(Duration::MAX)),
        ("max_ttl", RedlockBuilder::max_ttl),
        ("max_hold", RedlockBuilder::max_hold),
        ("node_timeout", RedlockBuilder::node_timeout),
    ];

    for (name, set) in settings.into_iter().filter(|(name, _)| *name != "max_hold") {
        assert_eq!(setting_of(&build_error(|b| set(b, Duration::MAX))), name);
    }

    let zero: [(&str, Set); 4] =
        [("ttl", RedlockBuilder::ttl), settings[1], settings[2], settings[3]];
    for (name, set) in zero {
        assert_eq!(setting_of(&build_error(|b| set(b, Duration::ZERO))), name);
    }

    let below = build_error(|b| b.max_ttl(Duration::from_secs(9)));
    assert_eq!(setting_of(&below), "max_ttl");
    assert!(below.to_string().contains("9s") && below.to_string().contains("10s"), "{below}");
}

#[test]
fn excessive_stop_margin() {
    let ms = Duration::from_millis;
    // Half of the validity of 988 ms.
    let error = build_error(|b| b.ttl(ms(1_000)).stop_margin(ms(495)));
    assert_eq!(setting_of(&error), "stop_margin");
    assert!(error.to_string().contains("988ms"), "{error}");
    let node = Recorder::default().node();
    Redlock::builder().node(node).ttl(ms(1_000)).stop_margin(ms(494)).build().unwrap();
}

#[test]
fn waiter_limits_of_zero() {
    assert_eq!(setting_of(&build_error(|b| b.max_waiters(0))), "max_waiters");
    assert_eq!(setting_of(&build_error(|b| b.max_waiters_in_total(0))), "max_waiters");
}

#[test]
fn ttl_below_drift() {
    for (ttl, factor) in [(1, 0.01), (2, 0.01), (2, 0.0), (1000, 0.999)] {
        let ttl = Duration::from_millis(ttl);
        let error = build_error(|b| b.ttl(ttl).drift_factor(factor));
        assert!(matches!(error, BuildError::TtlUnderDrift { .. }), "{error:?}");
        assert!(error.to_string().starts_with("ttl: "), "{error}");
    }
}

#[test]
fn other_nodes_beside_guarded_servers() {
    let server = "redis://127.0.0.1:1";
    assert_eq!(setting_of(&build_error(|b| b.nodes([server]))), "nodes");
    let off = Redlock::builder().restart_guard(tower_redlock::node::redis::RestartGuard::Off);
    off.nodes([server]).node(Recorder::default().node()).build().unwrap();
}

#[test]
fn drift_factors_out_of_range() {
    let bad = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.0, 1.5, -0.1, -f64::MIN_POSITIVE];
    for factor in bad {
        assert_eq!(setting_of(&build_error(|b| b.drift_factor(factor))), "drift_factor");
    }
}

#[test]
fn invalid_retries() {
    let ms = Duration::from_millis;
    let empty = ms(40)..=ms(5);
    assert_eq!(setting_of(&build_error(|b| b.retry_delay(empty))), "retry_delay");
    let endless = ms(5)..=Duration::MAX;
    assert_eq!(setting_of(&build_error(|b| b.retry_delay(endless))), "retry_delay");
    assert_eq!(setting_of(&build_error(|b| b.max_attempts(0))), "max_attempts");
}

#[test]
fn invalid_owners_and_prefixes() {
    let bad = [String::new(), "a\nb".into(), "a\u{0}".into(), "x".repeat(129)];

    for text in bad {
        assert_eq!(setting_of(&build_error(|b| b.owner(text.clone()))), "owner");
        assert_eq!(setting_of(&build_error(|b| b.key_prefix(text))), "key_prefix");
    }
    assert_eq!(setting_of(&build_error(|b| b.key_prefix("x".repeat(65)))), "key_prefix");

    Redlock::builder()
        .node(Recorder::default().node())
        .owner("o".repeat(128))
        .key_prefix("p".repeat(64))
        .build()
        .unwrap();
}

/// A name may contain anything, so prefix `a` and name `x:lock:y` have the key of `a:lock:x` and `y`.
#[test]
fn prefixes_that_share_keys_are_refused() {
    for kind in ["lock", "done", "free"] {
        for prefix in ["a:{}", "a:{}:b", "a:{}:", ":{}", "a:{}:b:{}"] {
            let prefix = prefix.replace("{}", kind);
            let error = build_error(|b| b.key_prefix(prefix.clone()));
            assert_eq!(setting_of(&error), "key_prefix");
            assert!(error.to_string().contains(&format!("`:{kind}:`")), "{prefix}: {error}");
        }
    }
    for prefix in ["lock", "done:a", "a:locks", "a:blocked:x", "a:meta", "a:marks:b"] {
        Redlock::builder().node(Recorder::default().node()).key_prefix(prefix).build().unwrap();
    }
}

fn setting_of(error: &BuildError) -> &'static str {
    match error {
        BuildError::InvalidSetting { setting, .. } => {
            assert!(error.to_string().starts_with(&format!("{setting}: ")), "{error}");
            setting
        }
        other => panic!("expected InvalidSetting, got {other:?}"),
    }
}
