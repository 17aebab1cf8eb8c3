//! From documents to what the engine knows. What cannot be read is said and passed over: it was read before it was written, by a version of this program
//! that knew more or less than this one.

use std::collections::{BTreeMap, HashMap};

use tollgate::core::Time;
use tollgate::policy::{Problems, Source, TenantTerms, read_terms};
use tollgate::{Descriptor, KeyAct, KeyActKind, KeySubject, Request};
use tollgate_control::{AuditRow, Change, Document, Kind, Version};

use crate::admin::documents::{
    ActName, KeyBody, KeySubjectBody, SwitchBody, is_domain, moment_ms, policy_source,
};
use crate::gate::{Gate, SwitchedNames};
use crate::protocol::http::Question;

const NS_PER_MS: u64 = 1_000_000;

/// What is in force, as far as the engine does not keep it itself.
#[derive(Default)]
pub(super) struct Applied {
    pub(super) version: Version,
    /// Bans and boosts by their ids: the engine takes all of them at once.
    keys: HashMap<String, KeyAct>,
}

/// One change.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) version: Version,
    kind: Option<Kind>,
    id: String,
    /// What is there after it; nothing if it was deleted.
    after: Option<String>,
}

impl Step {
    /// A change that has no version yet.
    pub(super) fn of(change: &Change) -> Step {
        Step { version: 0, kind: Some(change.kind), id: change.id.clone(), after: change.body.clone() }
    }

    /// The same, with its version.
    pub(super) fn at(self, version: Version) -> Step {
        Step { version, ..self }
    }
}

impl From<AuditRow> for Step {
    fn from(row: AuditRow) -> Step {
        Step { version: row.version, kind: row.known_kind(), id: row.id, after: row.after }
    }
}

impl Applied {
    /// Makes changes, in order. Those that are made already are passed over.
    pub(super) fn make(&mut self, steps: &[Step], gate: &Gate) {
        let known = self.version;
        let mut policies = BTreeMap::new();
        let mut has_acts = false;
        for step in steps.iter().filter(|step| step.version > known) {
            self.version = self.version.max(step.version);
            let Step { id, after, .. } = step;
            match step.kind {
                Some(Kind::Quota) => set_tenant(gate, id, after.as_deref()),
                Some(Kind::Policy) => {
                    policies.insert(id.clone(), after.as_deref().map(|body| source_of(id, body)));
                }
                Some(Kind::Key) => {
                    has_acts = true;
                    self.set_key(id, after.as_deref());
                }
                Some(Kind::Switch) => set_switches(gate, after.as_deref()),
                Some(Kind::Usage) => forget(gate, id, after.as_deref()),
                Some(Kind::Rules) | None => {}
            }
        }
        if !policies.is_empty() {
            tell(gate.change_documents(policies), "a policy of the database");
        }
        if has_acts {
            self.install_keys(gate);
        }
    }

    fn set_key(&mut self, id: &str, body: Option<&str>) {
        self.keys.remove(id);
        if let Some(act) = body.and_then(|body| key_act(id, body)) {
            self.keys.insert(id.to_owned(), act);
        }
    }

    fn install_keys(&mut self, gate: &Gate) {
        let now = gate.now();
        self.keys.retain(|_, act| now < act.until);
        if let Err(error) = gate.engine().set_key_acts(self.keys.values().cloned().collect()) {
            tracing::error!(%error, "the last ban or boost is not in force");
        }
    }
}

/// All documents on their way to the engine.
#[derive(Default)]
pub(super) struct Loading {
    tenants: Vec<(String, TenantTerms)>,
    policies: BTreeMap<String, Source>,
    switches: Option<String>,
    applied: Applied,
}

impl Loading {
    pub(super) fn take(&mut self, document: Document) {
        let Document { kind, id, body, .. } = document;
        match kind {
            Kind::Quota => {
                let terms = terms_of(&id, &body);
                self.tenants.extend(terms.map(|terms| (id, terms)));
            }
            Kind::Policy => drop(self.policies.insert(id.clone(), source_of(&id, &body))),
            Kind::Key => self.applied.set_key(&id, Some(&body)),
            Kind::Switch => self.switches = Some(body),
            Kind::Usage | Kind::Rules => {}
        }
    }

    /// Puts all of it in the place of what was in force.
    pub(super) fn finish(self, version: Version, gate: &Gate) -> Applied {
        let Loading { tenants, policies, switches, mut applied } = self;
        tell(gate.set_documents(policies), "a policy of the database");
        if let Err(error) = gate.engine().set_tenants(tenants, gate.now()) {
            tracing::error!(%error, "the quotas of the database are not in force");
        }
        set_switches(gate, switches.as_deref());
        applied.version = version;
        applied.install_keys(gate);
        applied
    }
}

fn source_of(id: &str, body: &str) -> Source {
    policy_source(id, is_domain(body), body)
}

fn set_tenant(gate: &Gate, id: &str, body: Option<&str>) {
    let terms = match body {
        None => None,
        Some(body) => match terms_of(id, body) {
            Some(terms) => Some(terms),
            None => return,
        },
    };
    if let Err(error) = gate.engine().set_tenant(id, terms, gate.now()) {
        tracing::error!(%error, "a quota is not in force");
    }
    gate.forget_denials();
}

fn terms_of(id: &str, body: &str) -> Option<TenantTerms> {
    tell(read_terms(id, body), "a quota of the database")
}

fn set_switches(gate: &Gate, body: Option<&str>) {
    let read = |body: &str| {
        let body: Result<SwitchBody, _> = serde_json::from_str(body);
        body.inspect_err(|error| tracing::error!(%error, "what is switched off cannot be read")).ok()
    };
    match body.map(read) {
        None => gate.switch(SwitchedNames::default()),
        Some(Some(SwitchBody { all, domains, rules })) => gate.switch(SwitchedNames { all, domains, rules }),
        Some(None) => {}
    }
}

fn key_act(id: &str, body: &str) -> Option<KeyAct> {
    let unreadable =
        |error: &dyn std::fmt::Display| tracing::error!(%error, id, "a ban or boost cannot be read");
    let body: KeyBody = serde_json::from_str(body).inspect_err(|error| unreadable(error)).ok()?;
    let Some(until_ms) = moment_ms(&body.until) else {
        unreadable(&"its end is no moment");
        return None;
    };
    let until_ms = u64::try_from(until_ms).unwrap_or(0);
    let what = match body.act {
        ActName::Ban => KeyActKind::Ban,
        ActName::Boost => KeyActKind::Boost { percent: body.percent.unwrap_or(100) },
    };
    let until = Time::from_ticks(until_ms.saturating_mul(NS_PER_MS));
    Some(KeyAct { subject: subject_of(body.subject), until, what })
}

fn subject_of(subject: KeySubjectBody) -> KeySubject {
    match subject {
        KeySubjectBody::Policy { policy, key } => KeySubject::Policy { name: policy, key: key.into_bytes() },
        KeySubjectBody::Descriptor { domain, descriptors: [descriptor] } => {
            let entries = descriptor.entries.into_iter().map(|entry| (entry.key, entry.value)).collect();
            KeySubject::Descriptor { domain, entries }
        }
    }
}

/// Forgets what this process has counted by itself. Whoever took the change has told shared counters.
fn forget(gate: &Gate, id: &str, body: Option<&str>) {
    let now = gate.now();
    let reset = |request: &Request<'_>| drop(gate.engine().reset(request, now));
    match body.and_then(|body| Question::read(body.as_bytes()).ok()) {
        Some(question) => question.ask(false, reset),
        // All of a tenant's.
        None => {
            for subject in gate.engine().limits_of(id) {
                match &subject.policy {
                    Some(policy) => reset(&Request::policy(policy, id.as_bytes())),
                    None => with_descriptor(&subject.domain, &subject.entries, reset),
                }
            }
        }
    }
    gate.forget_denials();
}

fn with_descriptor(domain: &str, entries: &[(String, String)], ask: impl FnOnce(&Request<'_>)) {
    let entries: Vec<(&str, &str)> =
        entries.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    ask(&Request::new(domain, &[Descriptor::new(&entries)]));
}

fn tell<T>(read: Result<T, Problems>, what: &str) -> Option<T> {
    read.inspect_err(|problems| tracing::error!("{what} is not in force:\n{problems}")).ok()
}
