//! What runs on the server. The text of each script says what it takes and what it answers.

/// A script.
#[derive(Clone, Copy, Debug)]
pub(super) struct Script {
    pub(super) text: &'static str,
}

pub(super) const ACQUIRE: Script = Script {
    text: concat!(include_str!("scripts/release_keys.lua"), include_str!("scripts/acquire.lua")),
};
pub(super) const RAISE: Script = Script { text: include_str!("scripts/raise.lua") };
pub(super) const EXTEND: Script = Script { text: include_str!("scripts/extend.lua") };
pub(super) const RELEASE: Script = Script {
    text: concat!(include_str!("scripts/release_keys.lua"), include_str!("scripts/release.lua")),
};
pub(super) const PREFILL: Script = Script { text: include_str!("scripts/prefill.lua") };

/// The digests under which a server keeps the scripts. They are asked for at every connect, so
/// that no copy of SHA-1 is needed here.
#[derive(Clone, Debug)]
pub(super) struct Digests {
    pub(super) acquire: String,
    pub(super) raise: String,
    pub(super) extend: String,
    pub(super) release: String,
}
