//! What the local line needs of the lease at its head.

use std::{fmt, sync::Arc, time::Duration};

use crate::{lock::settings::Plan, resource::Resource};

/// A lease that the head of a line holds. It may go to the first waiter, or linger for the next
/// request.
pub(crate) trait HeldLease: fmt::Debug + Send + Sync + Sized + 'static {
    /// One grant under the lease.
    type Grant: fmt::Debug + Send + Sync;

    /// Returns the remaining validity of the present grant, if it has a holder.
    fn remaining(&self) -> Option<Duration>;

    /// Returns whether it lingers.
    fn is_lingering(&self) -> bool;

    /// Takes over a lease that lingers. If that is not possible, releases a lingering lease and
    /// returns `None`. Must not be called with a mutex locked.
    fn take_over(
        self: &Arc<Self>,
        resource: &Resource,
        plan: &Arc<Plan>,
    ) -> Option<Arc<Self::Grant>>;

    /// Returns whether it is shared, so that other processes may hold the resource as well.
    fn is_shared(&self) -> bool;

    /// Returns whether further shared requests may hold it beside the present ones.
    fn is_open(&self) -> bool;

    /// Returns its TTL.
    fn ttl(&self) -> Duration;

    /// Returns whether this request may ever join it: it is shared, for this resource, with this TTL.
    fn fits(&self, resource: &Resource, plan: &Plan) -> bool;

    /// Grants a shared lease that is open to a further request. Must not be called with a mutex
    /// locked.
    fn join(self: &Arc<Self>, resource: &Resource, plan: &Arc<Plan>) -> Option<Arc<Self::Grant>>;

    /// Releases the lease if it lingers. Must not be called with a mutex locked.
    fn end_linger(self: &Arc<Self>);

    /// Releases a grant that its request did not receive.
    fn release(grant: &Arc<Self::Grant>);
}
