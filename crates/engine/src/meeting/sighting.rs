//! Some of the limits that requests meet are looked at, to find the keys that take most of them.

use tollgate_policy::PlacedLimit;
use tollgate_store::hot::{Leasing, ShardId, Sighting};

use super::{Meeting, Shared};
use crate::hot::{KeyName, SAMPLER, Seen, shown, shown_bytes};
use crate::request::Subject;
use crate::verdict::{Status, Usual};

/// What metrics call limits that requests bring along.
const OWN_LIMIT: &str = "(override)";

/// Samples of one request: hardly ever any, where there are many requests.
pub(crate) type Sighted = Usual<Seen>;

impl Meeting<'_> {
    /// Looks at some of the limits, now that they have answered.
    #[inline]
    pub(crate) fn observe(&self) {
        if !self.is_passed_over() {
            self.observe_some();
        }
    }

    /// Looks at some of the limits. What they answer, [`crate::hot::Hot::judge`] is to be told. Who takes nothing is not counted.
    #[inline]
    pub(super) fn sight(&self) -> Sighted {
        if self.is_passed_over() { Sighted::new() } else { self.sight_some() }
    }

    #[inline]
    fn is_passed_over(&self) -> bool {
        self.request.peek || SAMPLER.with(|sampler| sampler.passes_over(self.charges.len()))
    }

    #[cold]
    fn observe_some(&self) {
        for seen in self.sight_some() {
            let is_denied = self.answer.rulings[seen.index].is_over();
            self.engine.hot.judge(&seen, is_denied, self.now);
        }
    }

    #[cold]
    fn sight_some(&self) -> Sighted {
        let (hot, mut sighted) = (&self.engine.hot, Sighted::new());
        for (index, charge) in self.charges.iter().enumerate() {
            let Some(weight) = SAMPLER.with(|sampler| sampler.next(hot.gap_bits())) else { continue };
            let number = charge.key.number(charge.limit.shape());
            let (keeper, leasing) = match self.shared.iter().find(|shared| shared.index == index) {
                Some(Shared { counter, pin, leasing, .. }) => {
                    (self.engine.shard_of(counter.name, *pin), *leasing)
                }
                None => (Some(ShardId::HERE), Leasing::Never),
            };
            let Some(shard) = keeper else { continue };
            hot.see(Sighting { number, shard, leasing, weight }, self.now, || self.name(index));
            sighted.push(Seen { index, number, weight });
        }
        sighted
    }

    /// What the key is called that a charge is about.
    fn name(&self, index: usize) -> KeyName {
        let ruling = &self.answer.rulings[index];
        let place = ruling.place.and_then(|place| Some(self.snapshot?.place(place)));
        let title = place.and_then(|place| place.limits().get(ruling.limit_index)).map(PlacedLimit::title);
        let (domain, key) = match self.request.subject {
            Subject::Policy { key, .. } => ("", shown_bytes(key)),
            Subject::Descriptors { domain, descriptors } => {
                let meets =
                    |status: &Status| matches!(status, Status::Limited(range) if range.contains(&index));
                let at = self.answer.statuses.iter().position(meets);
                let entries = at.and_then(|at| descriptors.get(at)).map_or(&[][..], |found| found.entries);
                let put = |mut text: String, (key, value): (&str, &str)| {
                    let comma = if text.is_empty() { "" } else { ", " };
                    text.extend([comma, key, "=", value]);
                    text
                };
                let text = match place {
                    Some(place) => place.counted_entries(entries).fold(String::new(), put),
                    None => entries.iter().copied().fold(String::new(), put),
                };
                (domain, shown(&text))
            }
        };
        KeyName {
            domain: shown(domain),
            rule: shown(place.map_or(OWN_LIMIT, |place| place.path())),
            limit: shown(title.unwrap_or_default()),
            key,
        }
    }
}
