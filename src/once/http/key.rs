use crate::{layer::KeyError, resource::Resource};

/// What becomes of a request that has nothing where its key should be.
///
/// One whose key is there and no key (it is empty, or given twice, or the body is no JSON) is turned
/// away in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    /// It is turned away with 400, and does not run.
    #[default]
    Reject,
    /// It runs, as often as it is sent.
    Run,
}

impl Missing {
    /// What was found, if a missing key is dealt with so.
    pub(in crate::once) fn settle(
        self,
        found: Result<Option<Resource>, KeyError>,
    ) -> Result<Option<Resource>, KeyError> {
        match found {
            Err(error) if self == Self::Run && error.is_missing() => Ok(None),
            found => found,
        }
    }
}
