//! Tests of [`Config`].

use serde_json::json;

use super::*;

fn parse(text: &str) -> Result<Config, toml::de::Error> {
    toml::from_str(text)
}

#[test]
fn unknown_keys_are_refused_by_name() {
    let error = parse("nodes = []\nttl_ms = 10").unwrap_err().to_string();
    assert!(error.contains("ttl_ms"), "{error}");
    let error = parse("retry_delay = { min = '1ms', max = '2ms', mid = '1ms' }").unwrap_err();
    assert!(error.to_string().contains("mid"), "{error}");
}

#[test]
fn durations_need_a_unit() {
    assert!(parse("ttl = '250ms'").is_ok());
    assert!(parse("ttl = '250'").is_err());
    assert!(parse("ttl = 250").is_err());
}

#[test]
fn passwords_are_never_shown() {
    let config = parse("nodes = ['redis://:s3cret@h']\npassword = 's3cret'").unwrap();

    assert!(!format!("{config:?}").contains("s3cret"));

    let builder = config.into_builder().unwrap();
    assert!(!format!("{builder:?}").contains("s3cret"));

    for document in [
        json!({ "password": 471_142 }),
        json!({ "password": ["471142"] }),
        json!({ "nodes": "redis://h,:471142@h" }),
        json!({ "nodes": ["redis://:471142@h", 5] }),
        json!({ "nodes": [{ "url": "redis://:471142@h" }] }),
    ] {
        let error = serde_json::from_value::<Config>(document).err().unwrap().to_string();
        assert!(error.contains("expected") || error.contains("URL"), "{error}");
        assert!(!error.contains("471142"), "{error}");
    }
    let error = parse("password = '471142").err().unwrap();
    assert!(!error.message().contains("471142"), "{error}");
    assert!(error.to_string().contains("471142"), "the line of a syntax error is shown: {error}");
}

/// A password at the place of each setting, as a text, a list and a table, and as a setting's name.
#[test]
fn misplaced_values_are_never_shown() {
    let url = "redis://:s3cret@h";
    let fields = "nodes sets ttl max_ttl wait max_hold linger node_timeout drift_factor retry_delay wakeups \
         wait_without_quorum max_attempts auto_extend max_retry_after owner key_prefix fencing restart_guard \
         assume_new_servers accept_few_servers eviction_guard stop_margin overrun max_waiters \
         max_waiters_in_total handoff_limit max_waiting_body_bytes max_records \
         max_stored_response_bytes username password password_file tls";
    let values =
        [json!(url), json!([url]), json!([[url], 5]), json!({ url: 5 }), json!({ "min": url })];
    let mut refused = 0;
    for field in fields.split_whitespace() {
        for value in &values {
            let document = json!({ field: value });
            let of_json = serde_json::from_value::<Config>(document.clone()).err();
            let text = toml::to_string(&document).unwrap();
            let of_toml = parse(&text).err();

            assert_eq!(of_json.is_some(), of_toml.is_some(), "{document}");
            for error in [of_json.map(|e| e.to_string()), of_toml.map(|e| e.to_string())] {
                let Some(error) = error else { continue };
                refused += 1;
                assert!(error.starts_with(field), "{document}: {error}");
                assert!(!error.contains("s3cret"), "{document}: {error}");
            }
        }
    }
    assert!(refused > 250, "only {refused} errors");
    for name in [url, "s3cret word", "s3cret@h"] {
        let error = serde_json::from_value::<Config>(json!({ name: 1 })).err().unwrap();
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
}

#[test]
fn texts_are_read_as_numbers_and_booleans() {
    let config: Config = serde_json::from_value(json!({
        "drift_factor": "0.02", "max_attempts": "3", "max_waiters": " 70 ", "wakeups": "off",
        "fencing": 1, "owner": "5", "ttl": "3s",
    }))
    .unwrap();

    assert_eq!((config.drift_factor, config.max_attempts), (Some(0.02), Some(3)));
    assert_eq!((config.max_waiters, config.wakeups), (Some(70), Some(false)));
    assert_eq!((config.fencing, config.owner.as_deref()), (Some(true), Some("5")));
    for document in
        [json!({ "max_attempts": "-1" }), json!({ "wakeups": "2" }), json!({ "ttl": "3" })]
    {
        assert!(serde_json::from_value::<Config>(document.clone()).is_err(), "{document}");
    }
}

/// A part of the settings of a service, with or without a table of its own.
#[test]
fn configuration_can_be_flattened() {
    #[derive(Deserialize)]
    struct Service {
        port: u16,
        #[serde(flatten)]
        redlock: Config,
    }

    let service: Service =
        toml::from_str("port = 80\nnodes = 'redis://h'\nwakeups = false").unwrap();

    assert_eq!((service.port, service.redlock.wakeups), (80, Some(false)));
    assert_eq!(service.redlock.nodes.len(), 1);
}

#[test]
fn invalid_settings_are_refused_by_name() {
    let error = |text| Redlock::from_config(parse(text).unwrap()).unwrap_err().to_string();
    assert!(error("nodes = []").contains("no nodes"));
    assert!(error("nodes = ['redis://h']\nusername = 'u'").contains("username"));
    assert!(error("nodes = ['redis://h']\ndrift_factor = 1.5").contains("drift_factor"));
    let twice = "nodes = ['redis://h']\npassword = 'p'\npassword_file = '/p'";
    assert!(error(twice).contains("password_file"));
}

#[test]
fn unreadable_files_are_named() {
    let error = |text| Redlock::from_config(parse(text).unwrap()).unwrap_err().to_string();
    let password = error("nodes = ['redis://h']\npassword_file = '/nonexistent'");
    assert!(password.contains("/nonexistent"), "{password}");
    if cfg!(feature = "tls") {
        let ca = error("nodes = ['rediss://h']\ntls = { ca = '/nonexistent' }");
        assert!(ca.contains("/nonexistent"), "{ca}");
    }
}

#[test]
fn sets_are_lists_or_texts_of_nodes() {
    let config = parse("sets = [['redis://a', 'redis://b'], 'redis://c,n=redis://d']").unwrap();
    let redlock = Redlock::from_config(config.clone()).unwrap();
    let names: Vec<_> = redlock.nodes().iter().map(|node| node.name().to_string()).collect();
    assert_eq!(names, ["a:6379/0", "b:6379/0", "c:6379/0", "n"]);
    assert_eq!(config.clone().into_builders().unwrap().len(), 2);
    assert!(config.into_builder().is_err());

    let both = parse("nodes = ['redis://a']\nsets = [['redis://b']]").unwrap();
    let error = Redlock::from_config(both).unwrap_err().to_string();
    assert!(error.contains("conflicts with nodes"), "{error}");

    let text = parse("sets = 'redis://a, redis://b; redis://c;'").unwrap();
    assert_eq!(text.into_builders().unwrap().len(), 2);
    let error = parse("sets = 'redis://a;471142'").unwrap_err().to_string();
    assert!(error.contains("sets: an entry") && !error.contains("471142"), "{error}");
}

#[test]
fn one_text_names_several_nodes() {
    let names = |text: &str| {
        let config: Config = serde_json::from_value(json!({ "nodes": text }))?;
        let redlock = Redlock::from_config(config).expect("valid settings");
        let nodes = redlock.nodes().iter().map(|node| node.name().to_string());
        Ok::<_, serde_json::Error>(nodes.collect::<Vec<_>>())
    };

    let read = names("redis://h1:7000, b = redis://:s3,cret@h2").unwrap();
    assert_eq!(read, ["h1:7000/0", "b"]);
    for (text, reason) in [("", "no server"), (",", "no server"), ("redis://h,b", "%2C")] {
        let error = names(text).unwrap_err().to_string();
        assert!(error.contains(reason), "{text}: {error}");
    }
}

#[test]
fn documented_settings_are_accepted() {
    let page = include_str!("../../docs/production.md");
    let block = page
        .split("```toml")
        .map(|part| part.split("```").next().unwrap_or_default())
        .find(|block| block.contains("node_timeout"))
        .unwrap();
    let config = parse(block).unwrap();
    assert_eq!(config.max_hold, Some(Duration::from_secs(300)));
}
