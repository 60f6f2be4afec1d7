//! The permissions that `docs/security.md` lists, read from the page, so that every test checks them.

use super::resp::Resp;
use super::server::RedisServer;

const PAGE: &str = include_str!("../../docs/security.md");
/// Part of each secret in the tests, so that their whole output can be searched for it.
const PASSWORD: &str = "s3cret";

/// The user of the page, on every server without a password.
pub const USER: &str = "locks";

/// The code spans of the paragraph on permissions.
fn spans() -> Vec<Vec<&'static str>> {
    spans_of("* **Permissions**")
}

/// The code spans of the paragraph that begins with this.
fn spans_of(title: &str) -> Vec<Vec<&'static str>> {
    let (_, rest) = PAGE.split_once(title).expect("the page has the paragraph");
    let (paragraph, _) = rest.split_once("\n* **").expect("another paragraph follows");
    paragraph.split('`').skip(1).step_by(2).map(|span| span.split_whitespace().collect()).collect()
}

/// The rules of the page's command, from `on` to the last.
pub fn rules() -> Vec<&'static str> {
    let spans = spans();
    let command = spans.iter().find_map(|span| span.strip_prefix(&["ACL", "SETUSER", USER]));
    command.expect("the page has the command").to_vec()
}

/// The rules that some settings need in addition.
pub fn further_rules() -> Vec<&'static str> {
    spans()
        .into_iter()
        .flatten()
        .filter(|word| word.starts_with('+') && !rules().contains(word))
        .collect()
}

/// The rules for a Cluster, in which the keys have the prefix `{redlock}`.
pub fn cluster_rules() -> Vec<String> {
    let all = rules().into_iter().chain(further_rules());
    let tagged = all.map(|rule| match rule.get(..1) {
        Some("~" | "&") => rule.replace("redlock", "{redlock}"),
        _ => rule.to_owned(),
    });
    let further = spans_of("* **Sentinel and Cluster**").concat();
    tagged
        .chain(further.into_iter().filter(|rule| rule.contains("cluster")).map(Into::into))
        .collect()
}

/// The rules for a user of Sentinels.
pub fn sentinel_rules() -> Vec<&'static str> {
    let spans = spans_of("* **Sentinel and Cluster**");
    spans.into_iter().find(|span| span[0] == "-@all").expect("the page has the rules")
}

/// The password of [`USER`].
pub fn password() -> &'static str {
    PASSWORD
}

/// The arguments that a server is started with.
pub(super) fn args() -> Vec<String> {
    let all = ["--user", USER].into_iter().chain(rules()).chain(further_rules());
    all.map(ToOwned::to_owned).collect()
}

/// The part of a URL with which a client logs in as the user.
pub fn login() -> String {
    assert!(rules().contains(&&*format!(">{PASSWORD}")), "the password of the page");
    format!("redis://{USER}:{PASSWORD}@")
}

impl RedisServer {
    /// Sets the user's rules to exactly these.
    #[track_caller]
    pub fn set_rules(&self, rules: &[&str]) {
        let command: Vec<&str> =
            ["ACL", "SETUSER", USER, "reset"].iter().chain(rules).copied().collect();
        assert_eq!(self.cli(&command), Resp::Simple("OK".into()));
    }
}
