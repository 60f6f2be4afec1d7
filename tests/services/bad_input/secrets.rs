//! Passwords in malformed URLs do not appear in any output.

use std::{error::Error, fmt::Write};

use futures_util::FutureExt;
use proptest::prelude::*;
use tower_redlock::{Redlock, RedlockBuilder};

use crate::bad_input::recorder::Recorder;
use crate::log::Log;
use crate::support::hand_clock::NoSpawner;

/// URLs with a password at `{}`, valid or with a common mistake.
const URLS: &[&str] = &[
    "redis://default:{}@host",
    "redis://:{}@host:6379",
    "redis://u:{}@[::1]:6379/3",
    "redis://u:{}@host@",
    "redis://u:{}@",
    "redis://:{}@host:port",
    "redis://:{}@host:99999",
    "redis://:{}@host:/0",
    "redis://u:{}@host/x",
    "redis://u:{}@host/-1",
    "redis://u:{}@host/0/1",
    "redis://u:{}@[::1",
    "redis://u:{}@ho st",
    "redis://u:{}@0.0.0.0",
    "redis://u:{}@host?protocol=9",
    "redis://u:{}@host?x=y",
    "redis://u:{}@host#insecure",
    "redis://u:{}\n@host",
    "redis://host:6379,u:{}@host",
    "redis://host/0?password={}",
    "redis://host?pass={}",
    "redis://host/{}@0",
    "redis//u:{}@host",
    "redis:/u:{}@host",
    "redis:u:{}@host",
    "redis:///u:{}@host",
    "REDIS://u:{}@host",
    "rediss://u:{}@host:port",
    "valkey://u:{}@host",
    "http://u:{}@host",
    "u:{}@host",
    "u:{}://host",
    "{}://host",
    "{}",
    "redis+unix:///run/redis.sock?pass={}",
    "redis+unix:///run/redis.sock?user=u&pass={}&db=x",
    "redis+unix:///run/redis.sock?pass={}&protocol=9",
    "redis+unix:///run/redis.sock?pas={}",
    "redis+unix:///run/redis.sock&pass={}",
    "redis+unix:///u:{}@/run/redis.sock",
    "redis+unix://u:{}@/run/redis.sock",
    "redis+unix://u:{}@host/run/redis.sock",
    "redis+unix://{}",
    "redis+sentinel://u:{}@host",
    "redis+sentinel://u:{}@host/locks?sentinel_tls=yes",
    "redis+sentinel://u@host/locks?sentinel_tls={}",
    "redis+sentinel://u:{}@host,/locks",
    "redis+sentinel://host/locks?sentinel_pas={}",
    "redis+sentinel://host/{}@locks",
    "redis+cluster://u:{}@host/1",
    "redis+cluster://u:{}@host,other:port",
];

/// URLs without an `@` of their own: an `@` in the password makes them valid.
const WITHOUT_HOST: &[&str] = &[
    "redis://default:{}",
    "redis://:{}",
    "redis://u:{}/0",
    "redis://host:6379:{}",
    "redis://u%3A{}%40host",
    "rediss://default:{}",
];

/// Passwords from parts that occur in no message, with URL separators between them.
fn password(separators: &'static str) -> impl Strategy<Value = (String, Vec<String>)> {
    let part = "[0-9]{0,2}[QXZ]{3}[0-9]?";
    let separators = separators.chars().map(String::from).chain(["://".into(), "%zz".into()]);
    let separator = proptest::sample::select(separators.collect::<Vec<_>>());
    (part, prop::collection::vec((separator, part), 0..4)).prop_map(|(first, rest)| {
        let mut password = first.clone();
        let mut parts = vec![first];
        for (separator, part) in rest {
            password = password + &separator + &part;
            parts.push(part);
        }
        (password, parts)
    })
}

fn url(urls: &'static [&str], separators: &'static str) -> impl Strategy<Value = Secret> {
    (proptest::sample::select(urls), password(separators))
        .prop_map(|(url, (password, parts))| Secret { url: url.replace("{}", &password), parts })
}

#[derive(Clone, Debug)]
struct Secret {
    url: String,
    parts: Vec<String>,
}

impl Secret {
    fn is_in(&self, shown: &str) -> bool {
        let shown = shown.to_ascii_uppercase();
        self.parts.iter().any(|part| shown.contains(part))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4096) })]

    #[test]
    fn passwords_stay_hidden(secret in prop_oneof![
        url(URLS, "@:/?#%&=+ []\\;,'\"|\t"),
        url(WITHOUT_HOST, ":/?#%&=+ []\\;,'\"|\t"),
    ]) {
        let shown = all_shown(|builder| builder.nodes(["redis://10.0.0.1", &secret.url]));
        prop_assert!(!secret.is_in(&shown), "{shown}");
        let shown = all_shown(|builder| builder.named_node("a", &*secret.url));
        prop_assert!(!secret.is_in(&shown), "{shown}");
    }
}

#[test]
fn urls_given_as_names_stay_hidden() {
    let shown = all_shown(|builder| builder.named_node("redis://u:s3cret@host", "redis://a"));
    assert!(shown.contains("nodes") && !shown.contains("s3cret"), "{shown}");
}

#[test]
fn faulty_urls_are_named_by_number() {
    let shown = all_shown(|builder| builder.nodes(["redis://10.0.0.1", "redis://u:3cret-9"]));
    assert!(shown.contains("node URL 2 (redis://***)"), "{shown}");
}

/// Returns the output of a manager, or of the error, and the log.
fn all_shown(configure: impl FnOnce(RedlockBuilder) -> RedlockBuilder) -> String {
    let (log, mut shown) = (Log::new(), String::new());
    let built = log.during(async {
        let builder = Redlock::builder().connector(Recorder::default()).spawner(NoSpawner);
        let builder = configure(builder);
        write!(shown, "{builder:?}").unwrap();
        match builder.build() {
            Ok(redlock) => {
                let names: Vec<_> = redlock.nodes().iter().map(|node| node.name()).collect();
                write!(shown, "{redlock:?} {names:?} {:?}", redlock.health()).unwrap();
            }
            Err(error) => {
                let mut error: &dyn Error = &error;
                write!(shown, "{error} {error:?}").unwrap();
                while let Some(source) = error.source() {
                    error = source;
                    write!(shown, "{error} {error:?}").unwrap();
                }
            }
        }
    });
    built.now_or_never().expect("at once");
    shown + &log.text()
}
