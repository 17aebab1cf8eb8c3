//! What to look at to see how a tenant fares.

use std::collections::BTreeSet;

use crate::snapshot::{Domain, LevelKind, Place, Snapshot};
use crate::tenant::{Target, TargetEntry, TenantTerms};
use crate::tree::{PlaceIndex, Values};

/// The most that are named.
const SUBJECTS_MAX: usize = 1_000;

/// A question about one tenant: a descriptor of a domain, or a policy with the tenant as the key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TenantSubject {
    /// The domain. Empty for a policy.
    pub domain: String,
    /// The entries of the descriptor. None for a policy.
    pub entries: Vec<(String, String)>,
    /// The policy.
    pub policy: Option<String>,
}

impl Snapshot {
    /// What to ask about a tenant: every rule whose counters tell nobody apart but tenants, with the tenant; every descriptor for which
    /// its terms have numbers of their own and name all that has to be known; and every policy. At most a thousand, sorted.
    pub fn subjects_of(&self, tenant: &str, terms: Option<&TenantTerms>) -> Vec<TenantSubject> {
        let mut subjects = BTreeSet::new();
        let phases = terms.into_iter().flat_map(|terms| &terms.phases);
        let targets: Vec<&Target> =
            phases.flat_map(|phase| &phase.overrides).map(|wanted| &*wanted.target).collect();
        for (at, place) in self.places.iter().enumerate() {
            if subjects.len() >= SUBJECTS_MAX {
                break;
            }
            let index = PlaceIndex(u32::try_from(at).unwrap_or(u32::MAX));
            let Some(domain) = self.domains.get(&place.domain) else { continue };
            let Some(tenant_key) = domain.tenant_key.as_deref() else { continue };
            let Some(tenant_at) = place.steps.iter().position(|step| *step.key == *tenant_key) else {
                continue;
            };
            let plain = entries(place, tenant, tenant_at, &[]);
            let named = targets.iter().filter_map(|target| match target {
                Target::Descriptor { domain, entries: named, .. }
                    if named.len() + 1 == place.steps.len()
                        && domain.as_deref().is_none_or(|domain| *domain == *place.domain) =>
                {
                    entries(place, tenant, tenant_at, named)
                }
                _ => None,
            });
            let all = plain.into_iter().chain(named);
            subjects.extend(
                all.filter(|entries| leads_to(domain, entries, index)).map(|entries| TenantSubject {
                    domain: domain.name.to_string(),
                    entries,
                    policy: None,
                }),
            );
        }
        let policy = |name: &str| TenantSubject {
            domain: String::new(),
            entries: Vec::new(),
            policy: Some(name.to_owned()),
        };
        let policies = self.policy_names.iter().map(|name| policy(name));
        subjects.into_iter().chain(policies).take(SUBJECTS_MAX).collect()
    }
}

/// A descriptor of the tenant that has this place, with the values that are named. None, if those leave something open that tells counters apart.
fn entries(
    place: &Place,
    tenant: &str,
    tenant_at: usize,
    named: &[TargetEntry],
) -> Option<Vec<(String, String)>> {
    let steps = place.steps.iter().zip(&place.levels).enumerate();
    let entries = steps.map(|(level, (step, kind))| {
        if level == tenant_at {
            return Some((step.key.to_string(), tenant.to_owned()));
        }
        let at = level - usize::from(level > tenant_at);
        let value = match named.get(at) {
            Some((key, _)) if *key != step.key => return None,
            Some((_, Some(value))) => value.to_string(),
            _ => match &step.values {
                Values::Exact(value) => value.to_string(),
                // All that match share a counter: the shortest of them will do.
                Values::Matching { pattern, .. } if *kind == LevelKind::Shared => {
                    pattern.as_str().replace('*', "")
                }
                Values::Matching { .. } | Values::Any => return None,
            },
        };
        Some((step.key.to_string(), value))
    });
    entries.collect()
}

fn leads_to(domain: &Domain, entries: &[(String, String)], place: PlaceIndex) -> bool {
    let entries: Vec<_> = entries.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    domain.find(&entries) == Some(place)
}
