//! What operators change at run time, besides rules: what single tenants may, single keys, and what was counted.

use std::sync::Arc;

use tollgate_core::Time;
use tollgate_policy::{Snapshot, TenantSubject, TenantTerms, TooManyTenants};
use tollgate_store::authority::Directed;

use super::{Borrowed, Engine, Inquiry, Purpose};
use crate::key_acts::{KeyAct, TooManyKeyActs};
use crate::meeting::{Meeting, Stash};
use crate::request::{Request, RequestError};

impl Engine {
    /// Puts the terms of all tenants in the place of those before. What was counted stays counted. With too many of them, those before
    /// stay in force.
    pub fn set_tenants(
        &self,
        all: impl IntoIterator<Item = (String, TenantTerms)>,
        now: Time,
    ) -> Result<(), TooManyTenants> {
        let mut tenants = self.tenants();
        let all = all.into_iter().map(|(tenant, terms)| (tenant, terms.not_over(now)));
        let successor = tenants.set_all(all, self.snapshot.load().as_deref())?;
        self.succeed(successor);
        Ok(())
    }

    /// Changes the terms of one tenant, or takes them away. Decisions that begin after this go by them; when they come into force and when they
    /// end, they say themselves. What is over by now is not kept.
    pub fn set_tenant(
        &self,
        tenant: &str,
        terms: Option<TenantTerms>,
        now: Time,
    ) -> Result<(), TooManyTenants> {
        let mut tenants = self.tenants();
        let terms = terms.map(|terms| terms.not_over(now));
        let successor = tenants.set(tenant, terms, self.snapshot.load().as_deref())?;
        self.succeed(successor);
        Ok(())
    }

    /// How many tenants have terms of their own.
    pub fn tenants_len(&self) -> usize {
        self.tenants().len()
    }

    /// The terms of a tenant, as they were told.
    pub fn terms_of(&self, tenant: &str) -> Option<Arc<TenantTerms>> {
        self.tenants().terms(tenant).cloned()
    }

    /// What there is to say about terms under the rules in force: overrides that match nothing, and numbers that a limit cannot have.
    pub fn check_terms(&self, terms: &TenantTerms) -> Vec<String> {
        let snapshot = self.snapshot.load();
        snapshot.as_ref().map(|snapshot| snapshot.check_terms(terms, self.is_sharing())).unwrap_or_default()
    }

    /// What to ask about a tenant to see all of its limits: descriptors and policies, to be peeked at.
    pub fn limits_of(&self, tenant: &str) -> Vec<TenantSubject> {
        let terms = self.terms_of(tenant);
        let snapshot = self.snapshot.load();
        snapshot.as_ref().map(|snapshot| snapshot.subjects_of(tenant, terms.as_deref())).unwrap_or_default()
    }

    /// Puts bans and boosts of single keys in the place of all before. With too many of them, those before stay in force.
    pub fn set_key_acts(&self, acts: Vec<KeyAct>) -> Result<(), TooManyKeyActs> {
        self.key_acts.set(acts, &self.ledger)
    }

    /// Forgets what was counted under all limits that a request meets. Where counters are shared, this process forgets its part, and the authority is to be asked
    /// the questions that are returned, which make it forget the rest.
    pub fn reset(&self, request: &Request<'_>, now: Time) -> Result<Vec<Directed>, RequestError> {
        let request = request.peek();
        let guard = self.snapshot.load();
        let snapshot = request.answerable_by(guard.as_deref())?;
        let mut scratch = Borrowed::take();
        let own = request.own_limits(snapshot, self.settings.default_algorithm)?;
        let stash = Stash::default();
        let mut meeting = Meeting::new(self, &Inquiry { request: &request, purpose: Purpose::Pass, now });
        meeting.find(snapshot, &own, &stash, &mut scratch.0.key)?;
        Ok(meeting.reset(&mut scratch.0.key))
    }

    fn succeed(&self, successor: Option<Snapshot>) {
        if let Some(successor) = successor {
            self.snapshot.store(Some(Arc::new(successor)));
        }
    }
}
