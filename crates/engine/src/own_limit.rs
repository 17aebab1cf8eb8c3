//! Limits that requests bring along, made into limits that decide.

use smallvec::SmallVec;
use tollgate_core::{Blocked, FixedWindow, Rate, SlidingWindow, Tick};
use tollgate_policy::{DefaultAlgorithm, Period, Quota, Snapshot};

use crate::request::{OwnLimit, Request, RequestError, Subject};
use crate::verdict::Usual;

impl Request<'_> {
    /// The limits that the descriptors bring along, in a domain that anybody knows.
    pub(crate) fn own_limits(
        &self,
        snapshot: &Snapshot,
        default: DefaultAlgorithm,
    ) -> Result<Usual<Quota>, RequestError> {
        let Subject::Descriptors { domain, descriptors } = self.subject else { return Ok(SmallVec::new()) };
        if descriptors.iter().all(|descriptor| descriptor.limit.is_none())
            || snapshot.domain(domain).is_none()
        {
            return Ok(SmallVec::new());
        }
        let own =
            descriptors.iter().enumerate().filter_map(|(index, descriptor)| Some((index, descriptor.limit?)));
        own.map(|(index, own)| quota(own, default).ok_or(RequestError::UnknownUnit { index })).collect()
    }
}

fn quota(own: OwnLimit, default: DefaultAlgorithm) -> Option<Quota> {
    let unit = own.unit?;
    let period = Period::Unit(unit);
    let limit = match own.requests_per_unit {
        0 => Blocked.into(),
        units => {
            let rate = Rate::new(units, Tick::NANOSECOND.span(period.length()?).ok()?).ok()?;
            match default {
                DefaultAlgorithm::SlidingWindow => SlidingWindow::new(rate).into(),
                DefaultAlgorithm::FixedWindow => FixedWindow::new(rate).into(),
            }
        }
    };
    // Whoever shares it builds what is shared: most do not.
    Some(Quota { limit, units: own.requests_per_unit, period, shared: None, leased: None })
}
