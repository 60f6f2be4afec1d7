use std::sync::Arc;

use super::{Holder, Released, ask::ask, core::Core, inspect::inspect_name};
use crate::{
    error::{Reason, ReleaseError, VoteOutcome},
    protocol::{Answer, LeaseId, Op, ReleasedAnswer, rules},
    resource::{Resource, ResourceError},
};

/// Whose lock is revoked: that of a [`Holder`], or of whoever holds a resource's names.
#[derive(Clone, Debug)]
pub struct RevokeTarget(Target);

#[derive(Clone, Debug)]
enum Target {
    Holder(Holder),
    Resource(Result<Resource, ResourceError>),
}

impl From<&Holder> for RevokeTarget {
    fn from(holder: &Holder) -> Self {
        Self(Target::Holder(holder.clone()))
    }
}

impl From<Resource> for RevokeTarget {
    fn from(resource: Resource) -> Self {
        Self(Target::Resource(Ok(resource)))
    }
}

impl From<&Resource> for RevokeTarget {
    fn from(resource: &Resource) -> Self {
        resource.clone().into()
    }
}

impl From<&str> for RevokeTarget {
    fn from(name: &str) -> Self {
        Self(Target::Resource(Resource::try_from(name)))
    }
}

impl From<String> for RevokeTarget {
    fn from(name: String) -> Self {
        Self(Target::Resource(Resource::try_from(name)))
    }
}

pub(super) async fn revoke(core: &Core, target: RevokeTarget) -> Result<Released, ReleaseError> {
    let resource = match target.0 {
        Target::Holder(holder) => return revoke_lease(core, &holder).await,
        Target::Resource(resource) => resource.map_err(ReleaseError::InvalidResource)?,
    };
    let mut revoked = Released::AlreadyLost;
    for name in resource.shared_names() {
        let holder =
            inspect_name(core, name).await.map_err(|votes| ReleaseError::NoQuorum { votes })?;
        if let Some(holder) = holder
            && revoke_lease(core, &holder).await? == Released::Released
        {
            revoked = Released::Released;
        }
    }
    Ok(revoked)
}

/// Deletes the lease's keys on every node.
async fn revoke_lease(core: &Core, holder: &Holder) -> Result<Released, ReleaseError> {
    let Some(lease) = &holder.lease else { return Err(ReleaseError::Foreign) };
    // It was stored under this name, so it is one.
    let Ok(resource) = Resource::try_from(&*holder.name) else { return Err(ReleaseError::Foreign) };
    let id = LeaseId::new(resource, lease.nonce, Arc::clone(&lease.owner), lease.since);
    let answers = ask(core, &Op::Release(Arc::new(id)), |_| false).await;
    let quorum = rules::quorum(answers.len());
    let released = |wanted: bool| {
        let is = |answer: &&Result<Answer, Reason>| matches!(answer, Ok(Answer::Released(ReleasedAnswer { existed, .. })) if *existed == wanted);
        answers.iter().filter(is).count()
    };
    if released(true) >= quorum {
        return Ok(Released::Released);
    }
    if released(true) + released(false) >= quorum {
        return Ok(Released::AlreadyLost);
    }
    let vote = |answer: &Result<Answer, Reason>| match answer {
        Ok(_) => VoteOutcome::Granted,
        Err(reason) => VoteOutcome::NotCounted(reason.clone()),
    };
    Err(ReleaseError::NoQuorum { votes: core.votes(answers.iter().map(vote).collect()) })
}
