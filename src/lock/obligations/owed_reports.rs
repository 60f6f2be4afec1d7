//! What is said of an end that is owed: events, counts and log lines.

use super::{
    owed_end::{End, OwedEnd, OwedPhase},
    owed_ends::ListedEnd as _,
};
use crate::{events::LockEventKind, metrics};

impl OwedEnd {
    /// Reports, once, that it is not stored in time, if it is in this phase.
    pub(super) fn report_in(&self, phase: OwedPhase, why: &str) {
        {
            let mut state = self.state();
            if state.phase != phase || std::mem::replace(&mut state.is_reported, true) {
                return;
            }
        }
        let error = self.failure();
        match &self.end {
            End::Record { lease, record, .. } => {
                self.client.counts.unrecorded();
                metrics::once("unrecorded");
                lease.send_event(|| LockEventKind::Unrecorded {
                    resource: lease.resource().clone(),
                    token: lease.token(),
                });
                let (key, token) = (lease.resource(), lease.token().get());
                if record.is_done {
                    crate::log::warn!(
                        %key, token, %error, why,
                        "work is done, but too few nodes stored its record: it may run again, or may have run elsewhere"
                    );
                } else {
                    crate::log::warn!(
                        %key, token, %error, why,
                        "work has an unknown outcome, and too few nodes hold its key: it may run again"
                    );
                }
            }
            #[cfg(feature = "scheduler")]
            End::Run { job, .. } => {
                crate::log::warn!(
                    %job, %error, why,
                    "the end of a run is not stored: other replicas will report it as interrupted"
                );
            }
        }
    }

    pub(super) fn log_refused(&self) {
        let (kind, name) = self.key();
        crate::log::warn!(
            %kind, %name,
            "an end is refused, as another replica has claimed the job since: the run is reported as interrupted"
        );
    }

    pub(super) fn log_owed(&self) {
        let (kind, name) = self.key();
        let error = self.failure();
        crate::log::info!(
            %kind, %name, %error,
            "an end is not stored yet: this process sends it until a quorum stores it"
        );
    }
}
