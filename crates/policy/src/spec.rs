//! What a rules file says: validated, and not yet compiled.

use crate::recipe::Recipe;
use crate::rule::Rule;

/// One file of rules.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileSpec {
    /// The domain and its descriptors.
    pub domain: Option<DomainSpec>,
    /// Named policies.
    pub policies: Vec<PolicySpec>,
}

/// A domain: a tree of descriptors.
#[derive(Clone, Debug, PartialEq)]
pub struct DomainSpec {
    /// Its name.
    pub name: String,
    /// Whether its rules are in force.
    pub enabled: bool,
    /// The descriptor entry whose value is the tenant.
    pub tenant_key: Option<String>,
    /// The tiers of tenants, by the tenant's name.
    pub tenants: Vec<(String, String)>,
    /// The first level of the tree.
    pub descriptors: Vec<DescriptorSpec>,
    /// How descriptors are made of requests that a proxy hands over as they are.
    pub forward_auth: Vec<Recipe>,
}

/// A node of the tree.
#[derive(Clone, Debug, PartialEq)]
pub struct DescriptorSpec {
    /// The key that an entry must have.
    pub key: String,
    /// The value that it must have: literally, or as a pattern with `*`. Absent: any.
    pub value: Option<String>,
    /// Whether all values that match a pattern share one counter.
    pub share_threshold: bool,
    /// Whether the operator wants this level's value in metrics. Kept for `explain`: labels never carry keys.
    pub value_to_metric: bool,
    /// What is asked of requests that end here. Absent: nothing.
    pub rule: Option<Rule>,
    /// The next level.
    pub descriptors: Vec<DescriptorSpec>,
}

/// A named policy, for callers that build their own keys.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicySpec {
    /// Its name.
    pub name: String,
    /// What it asks.
    pub rule: Rule,
}
