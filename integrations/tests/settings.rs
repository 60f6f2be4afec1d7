//! `Config` as a part of a service's settings, read by `figment` and by `config` from a TOML file and from
//! variables of the environment; passwords in the types of `secrecy`.

use std::{collections::HashMap, future::ready, time::Duration};

use config::{Environment, File, FileFormat};
use figment::{
    Figment, Jail,
    providers::{Env, Format, Toml},
};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use tower_redlock::{
    Config, LockOptions, Redlock,
    node::redis::{AuthToken, Credentials},
};

/// The settings of a service.
#[derive(Deserialize)]
struct Settings {
    listen: String,
    locks_password: Option<SecretString>,
    redlock: Config,
    /// The options of one kind of locks.
    #[serde(default)]
    invoices: LockOptions,
}

const FILE: &str = r#"
    listen = "127.0.0.1:8080"

    [redlock]
    nodes = ["redis://file"]
    ttl = "10s"
    wait = "2s"
    retry_delay = { min = "5ms", max = "20ms" }

    [invoices]
    ttl = "5s"
    slots = 3
"#;

/// They override the file: single settings, within a table as well.
const VARIABLES: [(&str, &str); 8] = [
    ("APP_REDLOCK__NODES", "redis://h1:7000,b=redis://h2,redis://h3"),
    ("APP_REDLOCK__WAIT", "250ms"),
    ("APP_REDLOCK__RETRY_DELAY__MAX", "40ms"),
    ("APP_REDLOCK__MAX_WAITERS", "50"),
    ("APP_REDLOCK__WAKEUPS", "false"),
    ("APP_REDLOCK__DRIFT_FACTOR", "0.02"),
    ("APP_INVOICES__MAX_HOLD", "1m"),
    ("APP_LOCKS_PASSWORD", "s3cret"),
];

#[expect(clippy::result_large_err, reason = "figment's own")]
fn by_figment(variables: &[(&str, &str)]) -> Result<Settings, figment::Error> {
    let mut read = None;
    Jail::expect_with(|jail| {
        for (name, value) in variables {
            jail.set_env(name, value);
        }
        let env = Env::prefixed("APP_").split("__");
        read = Some(Figment::new().merge(Toml::string(FILE)).merge(env).extract());
        Ok(())
    });
    read.expect("it ran")
}

fn by_config(variables: &[(&str, &str)]) -> Result<Settings, config::ConfigError> {
    let variables: HashMap<_, _> =
        variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    let env = Environment::with_prefix("APP").prefix_separator("_").separator("__");
    config::Config::builder()
        .add_source(File::from_str(FILE, FileFormat::Toml))
        .add_source(env.source(Some(variables)))
        .build()?
        .try_deserialize()
}

/// Asserts that the file is used, and overridden by [`VARIABLES`].
fn assert_merged(settings: Settings) {
    assert_eq!(settings.listen, "127.0.0.1:8080");
    let shown = format!("{:?}", settings.redlock);
    assert!(shown.contains("ttl: Some(10s), wait: Some(250ms)"), "{shown}");
    let invoices = LockOptions::new().ttl(Duration::from_secs(5)).slots(3);
    assert_eq!(settings.invoices, invoices.max_hold(Duration::from_secs(60)));

    let password = settings.locks_password.expect("it is set");
    let builder = settings.redlock.into_builder().unwrap();
    let builder = builder.credentials(Credentials::new("locks", password.expose_secret()));
    assert!(!format!("{builder:?} {password:?}").contains("s3cret"));
    let names = names(&builder.build().unwrap());
    assert_eq!(names, ["h1:7000/0", "b", "h3:6379/0"]);
}

fn names(redlock: &Redlock) -> Vec<String> {
    redlock.nodes().iter().map(|node| node.name().to_string()).collect()
}

#[test]
fn figment_merges_file_and_variables() {
    assert_merged(by_figment(&VARIABLES).unwrap());
    let only_file = by_figment(&[]).unwrap();
    assert_eq!(names(&Redlock::from_config(only_file.redlock).unwrap()), ["file:6379/0"]);
}

#[test]
fn config_merges_file_and_variables() {
    assert_merged(by_config(&VARIABLES).unwrap());
    let only_file = by_config(&[]).unwrap();
    assert_eq!(names(&Redlock::from_config(only_file.redlock).unwrap()), ["file:6379/0"]);
}

/// The misspelt variable, and not its value.
#[test]
fn unknown_variables_are_named_errors() {
    let variables = [("APP_REDLOCK__TTL_MS", "s3cret")];
    let figment = by_figment(&variables).err().expect("it is refused").to_string();
    let config = by_config(&variables).err().expect("it is refused").to_string();
    for error in [figment, config] {
        assert!(error.contains("ttl_ms") && !error.contains("s3cret"), "{error}");
    }
}

/// `figment` reads digits as a number, so leading zeros would be lost.
#[test]
fn password_of_digits_needs_quotes_in_figment() {
    let password = |value| [("APP_REDLOCK__PASSWORD", value)];

    let error = by_figment(&password("0471142")).err().expect("it is refused").to_string();
    assert!(error.contains("in quotes") && !error.contains("471142"), "{error}");
    by_figment(&password("\"0471142\"")).unwrap();
    by_config(&password("0471142")).unwrap();
}

/// The secret is exposed at each connect only, and not copied before.
#[test]
fn secret_is_read_by_a_callback() {
    let secret = SecretString::from("s3cret");
    let credentials =
        Credentials::callback(move || ready(Ok(AuthToken::password(secret.expose_secret()))));
    let redlock = Redlock::builder().nodes(["redis://127.0.0.1:1"]).credentials(credentials);
    assert!(!format!("{:?}", redlock.build().unwrap()).contains("s3cret"));
}
