//! The result of a release.

/// The result of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Released {
    /// A quorum of nodes deleted the key, or the lock went to another task of this process, or it
    /// [lingers](crate::LockOptions::linger) there.
    Released,
    /// The lock had been lost before: too few nodes had its key. Another client may have held the
    /// resource in the meantime. For a revocation by name: the name had no holder.
    AlreadyLost,
}
