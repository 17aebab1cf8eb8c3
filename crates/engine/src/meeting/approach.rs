//! The way of a descriptor, or of the key of a policy, to its limits: which place, whose counters, and what whoever asks may there.

use std::iter;

use tollgate_core::Cost;
use tollgate_policy::{
    Allowance, Domain, Place, PlaceIndex, PlacedLimit, Prefetch, Quota, Seeking, Snapshot, Standing,
};
use tollgate_store::authority::Pin;
use tollgate_store::{Charge, Key};

use super::{Meeting, Stash};
use crate::key::{Counted, KeyBuffer};
use crate::request::Descriptor;
use crate::verdict::{Status, Unmatched, Usual};

/// How terms of tenants are fetched ahead.
pub(crate) struct Ahead;

impl Prefetch for Ahead {
    #[inline]
    fn prefetch<T>(value: &T) {
        tollgate_store::prefetch(value);
    }
}

/// One descriptor, or the key of a policy, on its way to its limits.
pub(super) struct Approach<'a> {
    pub(super) place_index: PlaceIndex,
    pub(super) place: &'a Place,
    pub(super) counted: Counted<'a>,
    /// Whose counters, one for each limit of the place.
    pub(super) keys: Usual<Key>,
    pub(super) tier: Option<&'a str>,
    /// The tenant that its descriptor names, if its domain says which entry does.
    pub(super) tenant: Option<&'a str>,
    /// How its tenant stands, if that has terms of its own, or had some.
    pub(super) standing: Option<Standing<'a>>,
    /// How many hundredths of its limits it may have, if an operator has said so.
    pub(super) percent: Option<u32>,
    /// Where its shared counters are kept, if at a place of their own.
    pub(super) pin: Option<Pin>,
}

impl<'a> Approach<'a> {
    /// What it may under a limit: what the terms of its tenant say, else what the rule says.
    pub(super) fn allowance(&self, limit_index: usize, placed: &'a PlacedLimit) -> &'a Allowance {
        let told = self
            .standing
            .and_then(|standing| standing.allowance(self.place_index, limit_index, self.counted.entries()));
        told.unwrap_or_else(|| placed.allowance(self.tier))
    }

    pub(super) fn boosted(&self, placed: &PlacedLimit, quota: &'a Quota, stash: &'a Stash) -> &'a Quota {
        let boosted = self.percent.and_then(|percent| placed.boosted(quota, percent));
        boosted.map_or(quota, |boosted| stash.keep(boosted))
    }
}

impl<'a> Meeting<'a> {
    pub(super) fn approach(
        &self,
        (snapshot, domain): (&'a Snapshot, &'a Domain),
        at: usize,
        descriptor: &Descriptor<'a>,
        key_buffer: &mut KeyBuffer,
    ) -> Result<Approach<'a>, Status> {
        let entries = descriptor.entries;
        let tenant = domain.tenant_of(entries);
        // Where tenants have terms, their memory is on its way while all else is looked for.
        let seeking = tenant.and_then(|tenant| snapshot.seek::<Ahead>(tenant.as_bytes()));
        let place_index = self.place_of(snapshot, domain, descriptor)?;
        let place = snapshot.place(place_index);
        let sought = seeking.and_then(Seeking::find_ahead::<Ahead>);
        let counted = Counted::Entries(entries);
        let keys = self.keys(snapshot, place, counted, key_buffer);
        let pin = self.engine.pin_of(place.common(entries).map(str::as_bytes));
        let standing = sought.map(|sought| sought.standing(self.now));
        // What an operator has said of the tenant counts before what the rules say.
        let told = standing.and_then(Standing::tier);
        let tier = told.or_else(|| tenant.and_then(|tenant| domain.tier_of_tenant(tenant)));
        let percent = self.treatments.get(at).and_then(|treatment| treatment.percent);
        Ok(Approach { place_index, place, counted, keys, tier, tenant, standing, percent, pin })
    }

    pub(super) fn approach_policy(
        &self,
        snapshot: &'a Snapshot,
        place_index: PlaceIndex,
        (key, tier): (&'a [u8], Option<&'a str>),
        key_buffer: &mut KeyBuffer,
    ) -> Approach<'a> {
        let (place, counted) = (snapshot.place(place_index), Counted::Key(key));
        let seeking = snapshot.seek::<Ahead>(key);
        let keys = self.keys(snapshot, place, counted, key_buffer);
        let sought = seeking.and_then(Seeking::find_ahead::<Ahead>);
        let pin = self.engine.pin_of(iter::once(key));
        let standing = sought.map(|sought| sought.standing(self.now));
        let tier = tier.or_else(|| standing.and_then(Standing::tier));
        let percent = self.treatments.first().and_then(|treatment| treatment.percent);
        Approach { place_index, place, counted, keys, tier, tenant: None, standing, percent, pin }
    }

    /// The place whose rule applies to a descriptor, unless that brings its own limit along.
    fn place_of(
        &self,
        snapshot: &Snapshot,
        domain: &Domain,
        descriptor: &Descriptor<'_>,
    ) -> Result<PlaceIndex, Status> {
        if descriptor.limit.is_some() {
            return Err(Status::NoLimit);
        }
        let found = domain.find(descriptor.entries);
        let place_index = found.ok_or(Status::Unmatched(Unmatched::Rule))?;
        self.check_in_force(snapshot.place(place_index))?;
        Ok(place_index)
    }

    /// The keys of the counters at a place. Where tenants have terms, their memory is fetched while those are looked for: hardly ever do they make
    /// it another.
    fn keys(
        &self,
        snapshot: &Snapshot,
        place: &'a Place,
        counted: Counted<'_>,
        key_buffer: &mut KeyBuffer,
    ) -> Usual<Key> {
        let ledger = &self.engine.ledger;
        let fetches = snapshot.knows_tenants();
        let key = |limit: &'a PlacedLimit| {
            let key = ledger.key(key_buffer.of(place, limit, counted));
            if let Allowance::Quota(quota) = limit.allowance(None)
                && fetches
            {
                ledger.prefetch(&[Charge::peek(key, &quota.limit, Cost::ZERO)]);
            }
            key
        };
        place.limits().iter().map(key).collect()
    }
}
