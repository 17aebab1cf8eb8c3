//! The rules of Tollgate: from text to a validated, compiled snapshot.
//!
//! A person writes YAML; a request brings descriptors. This crate stands between them: it reads the text and says, with
//! file, line and column, everything that is wrong with it; and it compiles what is right into a [`Snapshot`] that finds
//! the rule of a descriptor without allocating. It does no I/O beyond reading its input, and decides nothing.

mod compile;
mod counting;
mod explain;
mod flat;
mod forms;
mod json;
mod keys;
mod map;
mod part;
mod pattern;
mod problem;
mod read;
mod recipe;
mod rule;
mod schema;
mod snapshot;
mod source;
mod spec;
mod tenant;
mod tenants;
mod tree;
mod yaml;

pub use counting::Counting;
pub use explain::Explanation;
pub use flat::{FlatEntry, read_flat};
pub use json::to_json;
pub use part::put_part;
pub use pattern::Pattern;
pub use problem::{Position, Problem, Problems};
pub use read::{read, read_all, read_policy, read_terms};
pub use recipe::{Action, Facts, Matcher, Part, Recipe, Test, counted_as};
pub use rule::{
    Allowance, Consistency, DefaultAlgorithm, FailMode, LeaseTerms, Overshoot, Period, Quota, Rule,
    RuleLimit, Unit,
};
pub use schema::schema;
pub use snapshot::{Domain, Place, PlacedLimit, RuleId, Snapshot};
pub use source::{Source, rule_files, sources};
pub use spec::{DescriptorSpec, DomainSpec, FileSpec, PolicySpec};
pub use tenant::{
    OVERRIDE_ENTRIES_MAX, OVERRIDES_MAX, Override, OverrideNumbers, Phase, Target, TargetEntry, TenantTerms,
};
pub use tenants::{
    OVERRIDE_RULES_MAX, Prefetch, Seeking, Sought, Standing, TENANTS_MAX, TenantSubject, Tenants,
    TooManyTenants,
};
pub use tree::{Child, Entry, Level, PlaceIndex, Values};
