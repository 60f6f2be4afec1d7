//! The scripts. Each file documents its arguments and replies.

use ::redis::Pipeline;

/// A script.
#[derive(Clone, Copy, Debug)]
pub(super) struct Script {
    pub(super) text: &'static str,
}

/// A script for enrolment, which also runs on a full server: one that restarted with its data has
/// to be enrolled again before it may renew its keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Enrolling {
    plain: &'static str,
    when_full: &'static str,
}

impl Enrolling {
    /// Returns the text for a server with script flags (Redis 7), or for an older one, where no
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

pub(super) const ACQUIRE: Script = Script {
    text: concat!(
        include_str!("scripts/acquire.lua"),
        include_str!("scripts/held.lua"),
        include_str!("scripts/acquire_all.lua")
    ),
};
pub(super) const RAISE: Script = Script { text: include_str!("scripts/raise.lua") };
pub(super) const EXTEND: Script = Script { text: include_str!("scripts/extend.lua") };
pub(super) const RELEASE: Script = Script { text: include_str!("scripts/release.lua") };
pub(super) const INSPECT: Script = Script { text: include_str!("scripts/inspect.lua") };
pub(super) const SCAN_FIELDS: Script = Script { text: include_str!("scripts/scan_fields.lua") };
pub(super) const CLAIM: Script = Script { text: include_str!("scripts/claim.lua") };
pub(super) const CLAIMS: Script = Script { text: include_str!("scripts/claims.lua") };
pub(super) const READ_RECORD: Script = Script { text: include_str!("scripts/read_record.lua") };
pub(super) const RECORD: Script = Script { text: include_str!("scripts/record.lua") };
pub(super) const REPAIR: Script = Script { text: include_str!("scripts/repair.lua") };
pub(super) const FORGET: Script = Script { text: include_str!("scripts/forget.lua") };
pub(super) const FORGET_JOB: Script = Script { text: include_str!("scripts/forget_job.lua") };
pub(super) const CHANGE: Enrolling = enrolling!("scripts/change.lua");
pub(super) const READ_RECORDS: Script = Script { text: include_str!("scripts/read_records.lua") };
pub(super) const KINDS: Script = Script { text: include_str!("scripts/kinds.lua") };
pub(super) const COPY_RECORDS: Script = Script { text: include_str!("scripts/copy_records.lua") };
pub(super) const CLAIM_TASK: Enrolling = enrolling!("scripts/claim_task.lua");
pub(super) const LEARN_MARKS: Enrolling = enrolling!("scripts/learn_marks.lua");
pub(super) const COPIED: Enrolling = enrolling!("scripts/copied.lua");

pub(super) const PERMISSIONS: Script = Script { text: include_str!("scripts/permissions.lua") };

/// Adds SCRIPT LOAD for the scripts of operations; the replies are the [`Digests`], in order.
pub(super) fn load(pipeline: &mut Pipeline) {
    let operations = [
        ACQUIRE,
        RAISE,
        EXTEND,
        RELEASE,
        INSPECT,
        SCAN_FIELDS,
        CLAIM,
        CLAIMS,
        READ_RECORD,
        RECORD,
        REPAIR,
        FORGET,
        FORGET_JOB,
    ];
    for script in operations {
        pipeline.cmd("SCRIPT").arg("LOAD").arg(script.text);
    }
}

/// The digests of the scripts, read at every connect, so that no SHA-1 is needed here.
#[derive(Clone, Debug)]
pub(super) struct Digests {
    pub(super) acquire: String,
    pub(super) raise: String,
    pub(super) extend: String,
    pub(super) release: String,
    pub(super) inspect: String,
    pub(super) scan_fields: String,
    pub(super) claim: String,
    pub(super) claims: String,
    pub(super) read_record: String,
    pub(super) record: String,
    pub(super) repair: String,
    pub(super) forget: String,
    pub(super) forget_job: String,
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, fs, path::Path};

    /// Commands without a key.
    const KEYLESS: [&str; 6] = ["'TIME'", "'INFO'", "'PING'", "'PUBLISH'", "'PUBSUB'", "'SCAN'"];
    /// The function whose first argument is a key.
    const OF_KEY: &str = "held";
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
                || code.contains(&format!("function {OF_KEY}(key,"))
        };
        key.starts_with("KEYS[") || (key == "key" && is_local())
    }

    /// Some servers refuse scripts that touch other keys than the declared ones.
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
            keys.extend(calls(&code, OF_KEY).into_iter().map(|call| call[0].clone()));
            count += keys.len();
            for key in keys {
                assert!(is_declared(&key, &code), "{file}: {key:?} is not declared");
            }
        }
        assert!(count > 60, "only {count} keys were found");
        assert!(files()["extend.lua"].contains("gone[#gone + 1] = KEYS[i]"));
    }
}
