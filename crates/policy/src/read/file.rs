//! The top of a file: a domain, its tenants, and named policies.

use std::collections::BTreeMap;

use super::Reader;
use super::descriptor::Way;
use super::fields::{Fields, Found};
use super::guess::Guess;
use crate::keys::{DOMAIN_CHARS_MAX, ROOT, nearest};
use crate::problem::{Mark, Position, quote};
use crate::spec::{DomainSpec, FileSpec};
use crate::yaml::{Entry, Node};

/// What a file says, and where it names what must be unique.
pub(super) struct FileRead {
    pub(super) spec: FileSpec,
    pub(super) domain_position: Option<Position>,
    /// One for each policy.
    pub(super) policy_positions: Vec<Position>,
}

impl Reader<'_, '_> {
    /// The whole file.
    pub(super) fn file(&mut self, root: &Node) -> Option<FileRead> {
        let fields = self.fields(root, &ROOT, root.mark)?;
        if lacks_all(&fields) {
            let hint = "write `domain: NAME`, and its rules under `descriptors:`; or `policies:`";
            self.wrong(fields.mark, "the file has neither a `domain` nor `policies`", hint);
        }
        let (domain, domain_position) = self.domain(&fields);
        let example = "`policies: {search: {requests: 100, period: 1m}}`";
        let policies = self.optional(&fields, "policies", |reader, entry| reader.map(entry, example)).value();
        let (policies, policy_positions) = self.policies(policies.as_deref().unwrap_or_default());
        Some(FileRead { spec: FileSpec { domain, policies }, domain_position, policy_positions })
    }

    fn domain(&mut self, fields: &Fields) -> (Option<DomainSpec>, Option<Position>) {
        let name = self.field(fields, "domain", |reader, entry| reader.text_up_to(entry, DOMAIN_CHARS_MAX));
        if let Some(given) = name.given().filter(|given| given.value.is_empty()) {
            let hint = "write the name that the proxy asks for, `domain: NAME`";
            self.wrong(given.mark, "the `domain` is empty", hint);
        }
        if fields.lacks("domain") && !lacks_all(fields) {
            self.check_domain_needed(fields);
        }
        let problems_before = self.problems.len();
        let way = Way::to_domain(name.given().map_or("", |given| &given.value));
        let descriptors =
            self.optional(fields, "descriptors", |reader, entry| reader.descriptors(entry, way));
        let descriptors = descriptors.value().unwrap_or_default();
        let recipes = self.optional(fields, "forward_auth", Reader::recipes).value().unwrap_or_default();
        if self.problems.len() == problems_before {
            self.check_recipes(&recipes, &descriptors);
        }
        let tenant_key = self.field(fields, "tenant_key", Reader::text);
        if let Some(given) = tenant_key.given().filter(|given| given.value.is_empty()) {
            self.wrong(given.mark, "the `tenant_key` is empty", "name the key whose value is the tenant");
        }
        let tenants = self.tenants(fields);
        if self.problems.len() == problems_before {
            self.check_tenant_key(&tenant_key, fields);
        }
        let enabled = self.flag(fields, "enabled", true);
        let position = name.given().map(|given| self.page.position(given.mark));
        let domain = name.value().filter(|name| !name.is_empty()).map(|name| DomainSpec {
            name,
            enabled,
            tenant_key: tenant_key.value(),
            tenants,
            descriptors,
            forward_auth: recipes.into_iter().map(|(recipe, _)| recipe).collect(),
        });
        (domain, position)
    }

    /// Without a domain, nothing of it may be there.
    fn check_domain_needed(&mut self, fields: &Fields) {
        let of_domain = ["descriptors", "tenant_key", "tenants", "enabled", "forward_auth"];
        for entry in fields.entries().iter().filter(|entry| of_domain.contains(&&*entry.key)) {
            let what = format!("`{}` needs a `domain`", entry.key);
            let hint = match &*entry.key {
                "enabled" => "a policy has its own `enabled`: write it inside the policy",
                _ => "write `domain: NAME` above it: the name that the proxy asks for",
            };
            self.wrong(entry.key_mark, what, hint);
        }
    }

    fn tenants(&mut self, fields: &Fields) -> Vec<(String, String)> {
        let example = "`tenants: {acme: pro}`";
        let entries = self.optional(fields, "tenants", |reader, entry| reader.map(entry, example));
        let Found::Given(given) = entries else { return Vec::new() };
        if fields.lacks("tenant_key") {
            let hint = "write `tenant_key: NAME`, the key of the descriptor entry whose value is the tenant";
            self.wrong(given.key_mark, "`tenants` needs a `tenant_key`", hint);
        }
        given.value.iter().filter_map(|entry| self.tenant(entry)).collect()
    }

    fn tenant(&mut self, entry: &Entry) -> Option<(String, String)> {
        if entry.value.is_null() {
            let what = format!("the tenant {} has no tier", quote(&entry.key));
            self.wrong(entry.key_mark, what, "write the name of a tier behind it");
            return None;
        }
        let tier = self.text(entry)?;
        let known = self.tiers_seen.contains_key(&tier);
        if !known && !self.is_only_counted(entry.value.mark) {
            let tiers = &self.tiers_seen;
            let look = || {
                let near = nearest(&tier, tiers.keys().map(String::as_str));
                let hint = near.map(|near| format!("did you mean {}?", quote(near)));
                Guess { meant: None, hint: hint.unwrap_or_else(|| tier_names(tiers)) }
            };
            let guess = self.guesses.guess("tiers", &tier, look, || tier_names(tiers));
            self.wrong(entry.value.mark, format!("unknown tier {}", quote(&tier)), guess.hint);
        }
        known.then(|| (entry.key.as_ref().to_owned(), tier))
    }

    /// Tiers that no request can reach are a mistake that nobody would notice.
    fn check_tenant_key(&mut self, tenant_key: &Found<String>, fields: &Fields) {
        let first_tier: Option<Mark> =
            self.tiers_seen.values().copied().min_by_key(|mark| (mark.line, mark.column));
        if let Some(mark) = first_tier.filter(|_| fields.lacks("tenant_key") && fields.has("domain")) {
            let hint = "write `tenant_key: NAME` at the top of the file: the key of the entry whose value is the tenant";
            self.wrong(mark, "nobody has a tier: the domain has no `tenant_key`", hint);
        }
        let Some(given) = tenant_key.given() else { return };
        let known = self.keys_seen.is_empty() || self.keys_seen.contains(&given.value);
        if !known && !given.value.is_empty() {
            let hint = match nearest(&given.value, self.keys_seen.iter().map(String::as_str)) {
                Some(near) => format!("did you mean {}?", quote(near)),
                None => "name a `key` of the descriptors below".to_owned(),
            };
            let what = format!("the `tenant_key` {} is the key of no descriptor", quote(&given.value));
            self.wrong(given.mark, what, hint);
        }
    }
}

/// What tiers there are, in words.
fn tier_names(tiers: &BTreeMap<String, Mark>) -> String {
    const SHOWN_MAX: usize = 10;
    if tiers.is_empty() {
        return "no rule of the domain has `tiers`; write `tiers:` into a `rate_limit`".to_owned();
    }
    let names: Vec<_> = tiers.keys().take(SHOWN_MAX).map(|name| quote(name)).collect();
    format!("the domain's rules name the tiers {}", names.join(", "))
}

/// Whether nothing is there that a file is for.
fn lacks_all(fields: &Fields) -> bool {
    ["domain", "policies", "descriptors"].iter().all(|key| fields.lacks(key))
}
