//! The scripts. Each file documents its arguments and replies.

use ::redis::Pipeline;

/// A script of an operation, which is sent by its digest once that is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct OperationScript {
    number: usize,
    pub(super) text: &'static str,
}

/// A script for enrolment. It also runs on a full server, as a server that restarted with its data
/// has to be enrolled again before its keys can be renewed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Enrolling {
    plain: &'static str,
    when_full: &'static str,
}

impl Enrolling {
    /// Returns the text for a server with script flags (Redis 7), or for an older one, on which no
    /// script can write when memory is full.
    pub(super) const fn text(self, knows_flags: bool) -> &'static str {
        if knows_flags { self.when_full } else { self.plain }
    }
}

macro_rules! enrolling {
    ($file:literal) => {
        Enrolling {
            plain: include_str!($file),
            when_full: concat!("#!lua flags=allow-oom\n", include_str!($file)),
        }
    };
}

/// Defines the scripts of operations, in the order of their numbers.
macro_rules! operation_scripts {
    ($($number:literal $name:ident: $text:expr,)*) => {
        $(pub(super) const $name: OperationScript =
            OperationScript { number: $number, text: $text };)*
        /// The scripts of all operations, by their numbers.
        pub(super) const OPERATIONS: [OperationScript; 18] = [$($name),*];
    };
}

operation_scripts! {
    0 ACQUIRE: concat!(
        include_str!("scripts/acquire.lua"),
        include_str!("scripts/sharing.lua"),
        include_str!("scripts/sharing_held.lua"),
        include_str!("scripts/held.lua"),
        include_str!("scripts/acquire_all.lua")
    ),
    1 RAISE: include_str!("scripts/raise.lua"),
    2 EXTEND: concat!(include_str!("scripts/sharing.lua"), include_str!("scripts/extend.lua")),
    3 RELEASE: include_str!("scripts/release.lua"),
    4 INSPECT: concat!(include_str!("scripts/sharing.lua"), include_str!("scripts/inspect.lua")),
    5 SCAN_FIELDS: include_str!("scripts/scan_fields.lua"),
    6 CLAIM: include_str!("scripts/claim.lua"),
    7 CLAIMS: include_str!("scripts/claims.lua"),
    8 READ_RECORD: include_str!("scripts/read_record.lua"),
    9 RECORD: include_str!("scripts/record.lua"),
    10 REPAIR: include_str!("scripts/repair.lua"),
    11 FORGET: include_str!("scripts/forget.lua"),
    12 FORGET_JOB: include_str!("scripts/forget_job.lua"),
    13 ACQUIRE_SHARED: concat!(
        include_str!("scripts/sharing.lua"),
        include_str!("scripts/sharing_held.lua"),
        include_str!("scripts/held.lua"),
        include_str!("scripts/acquire_shared.lua")
    ),
    14 RAISE_SHARED: include_str!("scripts/raise_shared.lua"),
    15 EXTEND_SHARED: concat!(
        include_str!("scripts/sharing.lua"),
        include_str!("scripts/extend_shared.lua")
    ),
    16 RELEASE_SHARED: concat!(
        include_str!("scripts/sharing.lua"),
        include_str!("scripts/release_shared.lua")
    ),
    17 WITHDRAW: concat!(
        include_str!("scripts/sharing.lua"),
        include_str!("scripts/withdraw.lua")
    ),
}

pub(super) const CHANGE: Enrolling = enrolling!("scripts/change.lua");
pub(super) const FENCES: &str = include_str!("scripts/fences.lua");
pub(super) const READ_RECORDS: &str = include_str!("scripts/read_records.lua");
pub(super) const KINDS: &str = include_str!("scripts/kinds.lua");
pub(super) const COPY_RECORDS: &str = include_str!("scripts/copy_records.lua");
pub(super) const LEASE_TASK: Enrolling = enrolling!("scripts/lease_task.lua");
pub(super) const LEARN_MARKS: Enrolling = enrolling!("scripts/learn_marks.lua");
pub(super) const COPIED: Enrolling = enrolling!("scripts/copied.lua");

pub(super) const PERMISSIONS: &str = include_str!("scripts/permissions.lua");

/// The scripts that every lock needs, which are loaded at connect; the others are loaded at their
/// first use.
pub(super) const OF_LOCKS: [OperationScript; 4] = [ACQUIRE, RAISE, EXTEND, RELEASE];
/// Adds SCRIPT LOAD for these scripts.
pub(super) fn load(pipeline: &mut Pipeline, scripts: &[OperationScript]) {
    for script in scripts {
        pipeline.cmd("SCRIPT").arg("LOAD").arg(script.text);
    }
}

/// The digest of a script, as far as a connection knows it. Servers compute it, so that this crate
/// needs no SHA-1.
#[derive(Clone, Debug, Default)]
enum Digest {
    #[default]
    Unknown,
    Asked,
    Known(String),
    /// The server lacked the script, or did not load it. The text is sent until the next review.
    Lost,
}

/// The digests of the scripts of operations.
#[derive(Clone, Debug, Default)]
pub(super) struct Digests {
    /// The digests by the number of the script.
    known: [Digest; OPERATIONS.len()],
    /// Whether no script was lost since the latest review.
    may_load: bool,
}

impl Digests {
    /// Returns the digest of a script, or `None` if the text must be sent.
    pub(super) fn get(&self, script: OperationScript) -> Option<&str> {
        match &self.known[script.number] {
            Digest::Known(digest) => Some(digest),
            Digest::Unknown | Digest::Asked | Digest::Lost => None,
        }
    }

    /// Returns whether the digest was never requested.
    pub(super) fn is_unknown(&self, script: OperationScript) -> bool {
        matches!(self.known[script.number], Digest::Unknown)
    }

    /// Returns whether a [`review`](Self::review) changes something.
    pub(super) fn needs_review(&self) -> bool {
        !self.may_load || self.known.iter().any(|digest| matches!(digest, Digest::Lost))
    }

    /// Returns true at the first request for an unknown digest, which must then be loaded.
    pub(super) fn asks(&mut self, script: OperationScript) -> bool {
        let entry = &mut self.known[script.number];
        let is_unknown = matches!(entry, Digest::Unknown);
        if is_unknown {
            *entry = Digest::Asked;
        }
        is_unknown
    }

    /// Records the digest that SCRIPT LOAD answered, if it did.
    pub(super) fn learn(&mut self, script: OperationScript, digest: Option<String>) {
        self.known[script.number] = digest.map_or(Digest::Lost, Digest::Known);
    }

    /// Records that the server lacked a script, and so lacks all of them. Returns whether they must
    /// be loaded now: the first time since the latest review. After that their texts are sent.
    pub(super) fn lose(&mut self) -> bool {
        let may_load = std::mem::take(&mut self.may_load);
        if !may_load {
            self.known.fill(Digest::Lost);
        }
        may_load
    }

    /// Makes lost digests be requested again. Called once per health check, which bounds the number
    /// of scripts that are loaded into a server that does not keep them.
    pub(super) fn review(&mut self) {
        self.may_load = true;
        for digest in &mut self.known {
            if matches!(digest, Digest::Lost) {
                *digest = Digest::Unknown;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, fs, path::Path};

    use super::{ACQUIRE, Digests};

    /// Commands without a key.
    const KEYLESS: [&str; 6] = ["'TIME'", "'INFO'", "'PING'", "'PUBLISH'", "'PUBSUB'", "'SCAN'"];
    /// The functions whose first argument is a key.
    const OF_KEY: [&str; 7] =
        ["held", "held_shared", "longest", "expire", "shared_value", "marked", "take"];
    /// Names for declared keys in loops, and a list of such keys.
    const LOOPS: [&str; 3] = ["key in ipairs(KEYS)", "key in ipairs(gone)", "key in ipairs(free)"];

    /// The scripts by file name, without comments.
    fn files() -> BTreeMap<String, String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/node/redis/scripts");
        let read = |path: &Path| {
            let text = fs::read_to_string(path).unwrap();
            let code = text.lines().map(|line| line.split("--").next().unwrap_or_default());
            code.collect::<Vec<_>>().join("\n")
        };
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.map(|path| (name(&path), read(&path))).collect()
    }

    /// The first arguments of each call of a function.
    fn calls(code: &str, function: &str) -> Vec<Vec<String>> {
        let begun = format!("{function}(");
        let is_whole = |at: usize| {
            let before = code[..at].chars().next_back();
            !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
                && !code[..at].ends_with("function ")
        };
        let starts = code.match_indices(&begun).filter(|(at, _)| is_whole(*at));
        let arguments = |at: usize| {
            let rest = code[at + begun.len()..].split(')').next().unwrap_or_default();
            rest.split(',').take(3).map(|argument| argument.trim().to_owned()).collect()
        };
        starts.map(|(at, _)| arguments(at)).collect()
    }

    fn is_declared(key: &str, code: &str) -> bool {
        let is_local = || {
            LOOPS.iter().any(|words| code.contains(words))
                || code.contains("local key, channel, denied = KEYS[1],")
                || code.contains("for i, key in ipairs(KEYS)")
                || OF_KEY.iter().any(|name| code.contains(&format!("function {name}(key")))
        };
        key.starts_with("KEYS[") || (key == "key" && is_local())
    }

    #[test]
    fn digests_are_kept_by_number() {
        assert!(
            super::OPERATIONS.iter().enumerate().all(|(number, script)| script.number == number)
        );
    }

    #[test]
    fn lost_scripts_are_reviewed_before_asking() {
        let mut digests = Digests::default();
        digests.learn(ACQUIRE, Some("a".into()));
        digests.review();
        assert!(digests.lose(), "they are loaded");
        assert_eq!(digests.get(ACQUIRE), Some("a"));
        assert!(!digests.lose());
        assert_eq!(digests.get(ACQUIRE), None);
        assert!(!digests.asks(ACQUIRE), "not before the review");

        digests.review();
        assert!(digests.asks(ACQUIRE) && !digests.asks(ACQUIRE), "once");
        digests.learn(ACQUIRE, None);
        assert!(!digests.asks(ACQUIRE), "it was not loaded");
    }

    /// Some servers refuse scripts that use undeclared keys.
    #[test]
    fn scripts_declare_their_keys() {
        let mut count = 0;
        for (file, code) in files() {
            let mut keys = Vec::new();
            for (function, skipped) in [("call", 0), ("pcall", 0), ("try", 1)] {
                for call in calls(&code, function).iter().filter(|call| call[0] != "...") {
                    let [command, rest @ ..] = &call[skipped..] else { panic!("{file}: {call:?}") };
                    if command != "name" && !KEYLESS.contains(&&**command) {
                        keys.push(rest.first().cloned().unwrap_or_default());
                    }
                }
            }
            for name in OF_KEY {
                keys.extend(calls(&code, name).into_iter().map(|call| call[0].clone()));
            }
            count += keys.len();
            for key in keys {
                assert!(is_declared(&key, &code), "{file}: {key:?} is not declared");
            }
        }

        assert!(count > 60, "only {count} keys were found");
        assert!(files()["extend.lua"].contains("gone[#gone + 1] = KEYS[i]"));
    }
}
