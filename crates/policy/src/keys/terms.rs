//! The keys of a tenant's terms. They stand in documents of their own, not in files of rules.

use super::{DOMAIN_CHARS_MAX, Key, Kind, NAME_CHARS_MAX, NUMBER_KEYS, Table, key};

pub(crate) static TERMS: Table = Table {
    id: "terms",
    title: "a quota",
    home: "at the top of a quota",
    groups: &[PHASE_KEYS, TERMS_KEYS],
    required: &[],
};
pub(crate) static PHASE: Table = Table {
    id: "phase",
    title: "what was `before`",
    home: "inside `before`",
    groups: &[PHASE_KEYS],
    required: &[],
};
pub(crate) static OVERRIDE: Table = Table {
    id: "override",
    title: "an override",
    home: "inside an entry of `overrides`",
    groups: &[NUMBER_KEYS, OVERRIDE_KEYS],
    required: &[],
};

#[rustfmt::skip]
const PHASE_KEYS: &[Key] = &[
    key("tier", Kind::TextUpTo(NAME_CHARS_MAX), "The tenant's tier, in the place of the one that the rules give to it."),
    key("overrides", Kind::ListOf(&OVERRIDE), "Other numbers for some of its limits."),
    key("effective_at", Kind::Text, "From when on this is in force, such as 2026-02-01T00:00:00Z."),
    key("expires_at", Kind::Text, "From when on it is not any more."),
];

#[rustfmt::skip]
const TERMS_KEYS: &[Key] = &[
    key("before", Kind::One(&PHASE), "What is in force until `effective_at`."),
];

#[rustfmt::skip]
const OVERRIDE_KEYS: &[Key] = &[
    key("descriptor", Kind::Text, "The entries besides the tenant's own: KEY:VALUE, KEY for any value, or a list of such."),
    key("domain", Kind::TextUpTo(DOMAIN_CHARS_MAX), "The domain; without it, all domains that have a `tenant_key`."),
    key("policy", Kind::Name, "A named policy, asked with the tenant as the key; instead of a descriptor."),
    key("limit", Kind::Name, "Which of the rule's limits, by name."),
];
