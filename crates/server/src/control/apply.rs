//! From documents to what the engine knows. What cannot be read is said and passed over: it was read before it was written, by a version of this program
//! that knew more or less than this one.

use std::collections::{BTreeMap, HashMap};

use tollgate::core::Time;
use tollgate::policy::{Problems, Source, TENANTS_MAX, TenantTerms, TooManyTenants, read_terms};
use tollgate::{Descriptor, KeyAct, KeyActKind, KeySubject, Request};
use tollgate_control::{AuditRow, Change, Changed, Document, Head, Kind};

use super::room::{Addition, Bounds, NoRoom, Reserved, UnderWay};
use crate::admin::documents::{
    ActName, KeyBody, KeySubjectBody, SwitchBody, is_domain, moment_ms, policy_source,
};
use crate::gate::Gate;
use crate::protocol::http::Question;
use crate::seldom::Seldom;

const NS_PER_MS: u64 = 1_000_000;

/// What is in force, as far as the engine does not keep it itself.
pub(super) struct Applied {
    /// The last change that is.
    pub(super) head: Head,
    /// Bans and boosts by their ids: the engine takes all of them at once.
    keys: HashMap<String, KeyAct>,
    bounds: Bounds,
    under_way: UnderWay,
    told_of_no_room: Seldom,
}

/// One change.
#[derive(Clone, Debug)]
pub(super) struct Step {
    head: Head,
    kind: Option<Kind>,
    id: String,
    /// What is there after it; nothing if it was deleted.
    after: Option<String>,
}

impl Step {
    /// A change that has no version yet.
    pub(super) fn of(change: &Change) -> Step {
        Step { head: nothing(), kind: Some(change.kind), id: change.id.clone(), after: change.body.clone() }
    }

    /// The same, once it is made.
    pub(super) fn made(self, changed: &Changed) -> Step {
        Step { head: Head { version: changed.version, hash: changed.hash.clone() }, ..self }
    }
}

impl From<AuditRow> for Step {
    fn from(row: AuditRow) -> Step {
        let kind = row.known_kind();
        Step { head: Head { version: row.version, hash: row.hash }, kind, id: row.id, after: row.after }
    }
}

impl Applied {
    pub(super) fn new(bounds: Bounds) -> Applied {
        Applied {
            head: nothing(),
            keys: HashMap::new(),
            bounds,
            under_way: UnderWay::default(),
            told_of_no_room: Seldom::default(),
        }
    }

    /// Keeps room for a change that is about to be written, if it needs any; an error if there is none.
    pub(super) fn reserve(&mut self, step: &Step, gate: &Gate) -> Result<Option<Reserved>, NoRoom> {
        let addition = match step.kind {
            _ if step.after.is_none() => return Ok(None),
            Some(Kind::Quota) if gate.engine().terms_of(&step.id).is_none() => Addition::Tenant,
            Some(Kind::Key) if !self.keys.contains_key(&step.id) => Addition::KeyAct,
            _ => return Ok(None),
        };
        let under_way = self.under_way.count(addition);
        let Bounds { tenants_max, key_acts_max } = self.bounds;
        match addition {
            Addition::Tenant if gate.engine().tenants_len() + under_way >= tenants_max => {
                return Err(NoRoom::Tenants(tenants_max));
            }
            Addition::KeyAct if !self.has_room_for_keys(1 + under_way, gate.now()) => {
                return Err(NoRoom::KeyActs(key_acts_max));
            }
            Addition::Tenant | Addition::KeyAct => {}
        }
        Ok(Some(self.under_way.reserve(addition)))
    }

    #[cfg(test)]
    pub(super) fn under_way_of(&self, addition: Addition) -> usize {
        self.under_way.count(addition)
    }

    /// Makes changes, in order. Those that are made already are passed over.
    pub(super) fn make(&mut self, steps: &[Step], gate: &Gate) {
        let known = self.head.version;
        let mut policies = BTreeMap::new();
        let mut has_acts = false;
        for step in steps.iter().filter(|step| step.head.version > known) {
            self.head.clone_from(&step.head);
            let Step { id, after, .. } = step;
            match step.kind {
                Some(Kind::Quota) => {
                    let held = set_tenant(gate, id, after.as_deref(), self.bounds.tenants_max);
                    self.tell_of_no_room(held.err(), gate);
                }
                Some(Kind::Policy) => {
                    policies.insert(id.clone(), after.as_deref().map(|body| source_of(id, body)));
                }
                Some(Kind::Key) => {
                    has_acts = true;
                    let held = self.set_key(id, after.as_deref(), gate.now());
                    self.tell_of_no_room(held.err(), gate);
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

    /// What is over is not kept.
    fn set_key(&mut self, id: &str, body: Option<&str>, now: Time) -> Result<(), NoRoom> {
        self.keys.remove(id);
        let act = body.and_then(|body| key_act(id, body));
        if let Some(act) = act.filter(|act| now < act.until) {
            if !self.has_room_for_keys(1, now) {
                return Err(NoRoom::KeyActs(self.bounds.key_acts_max));
            }
            self.keys.insert(id.to_owned(), act);
        }
        Ok(())
    }

    fn has_room_for_keys(&mut self, more: usize, now: Time) -> bool {
        if self.keys.len() + more > self.bounds.key_acts_max {
            self.keys.retain(|_, act| now < act.until);
        }
        self.keys.len() + more <= self.bounds.key_acts_max
    }

    /// Whoever took the change had room for it, and this node has none.
    fn tell_of_no_room(&self, found: Option<NoRoom>, gate: &Gate) {
        let Some(error) = found else { return };
        gate.metrics().observe_config_unheld(1);
        if self.told_of_no_room.is_to_be_told(gate.now()) {
            let version = self.head.version;
            tracing::error!(%error, version, "a change that another node has taken is not in force here");
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
pub(super) struct Loading {
    now: Time,
    tenants: Vec<(String, TenantTerms)>,
    with_terms: usize,
    policies: BTreeMap<String, Source>,
    switches: Option<String>,
    applied: Applied,
    /// How many find no room.
    unheld: u64,
}

impl Loading {
    pub(super) fn new(bounds: Bounds, now: Time) -> Loading {
        Loading {
            now,
            tenants: Vec::new(),
            with_terms: 0,
            policies: BTreeMap::new(),
            switches: None,
            applied: Applied::new(bounds),
            unheld: 0,
        }
    }

    pub(super) fn take(&mut self, document: Document) {
        let Document { kind, id, body, .. } = document;
        match kind {
            Kind::Quota => {
                if let Some(terms) = terms_of(&id, &body) {
                    self.take_tenant(id, terms.not_over(self.now));
                }
            }
            Kind::Policy => drop(self.policies.insert(id.clone(), source_of(&id, &body))),
            Kind::Key => {
                self.unheld += u64::from(self.applied.set_key(&id, Some(&body), self.now).is_err());
            }
            Kind::Switch => self.switches = Some(body),
            Kind::Usage | Kind::Rules => {}
        }
    }

    fn take_tenant(&mut self, id: String, terms: TenantTerms) {
        let needs_room = !terms.is_empty();
        if needs_room && self.with_terms == self.applied.bounds.tenants_max {
            self.unheld += 1;
        } else {
            self.with_terms += usize::from(needs_room);
            self.tenants.push((id, terms));
        }
    }

    /// Puts all of it in the place of what was in force. What is under way stays so.
    pub(super) fn finish(self, head: Head, before: &mut Applied, gate: &Gate) {
        let Loading { tenants, policies, switches, mut applied, unheld, .. } = self;
        tell(gate.set_documents(policies), "a policy of the database");
        if let Err(error) = gate.engine().set_tenants(tenants, gate.now()) {
            tracing::error!(%error, "the quotas of the database are not in force");
        }
        set_switches(gate, switches.as_deref());
        gate.forget_denials();
        let version = head.version;
        applied.head = head;
        applied.install_keys(gate);
        if unheld > 0 {
            gate.metrics().observe_config_unheld(unheld);
            tracing::error!(
                unheld,
                version,
                "the database has more quotas, bans or boosts than this node can hold: so many are not in force"
            );
        }
        std::mem::swap(&mut applied.under_way, &mut before.under_way);
        std::mem::swap(&mut applied.told_of_no_room, &mut before.told_of_no_room);
        *before = applied;
    }
}

/// Before anything is known.
pub(super) fn nothing() -> Head {
    Head { version: 0, hash: String::new() }
}

fn source_of(id: &str, body: &str) -> Source {
    policy_source(id, is_domain(body), body)
}

fn set_tenant(gate: &Gate, id: &str, body: Option<&str>, tenants_max: usize) -> Result<(), NoRoom> {
    let terms = match body {
        None => None,
        Some(body) => match terms_of(id, body) {
            Some(terms) => Some(terms.not_over(gate.now())),
            None => return Ok(()),
        },
    };
    let (engine, is_told) = (gate.engine(), terms.as_ref().is_some_and(|terms| !terms.is_empty()));
    if is_told && engine.tenants_len() >= tenants_max && engine.terms_of(id).is_none() {
        return Err(NoRoom::Tenants(tenants_max));
    }
    let set = engine.set_tenant(id, terms, gate.now());
    gate.forget_denials();
    set.map_err(|TooManyTenants| NoRoom::Tenants(TENANTS_MAX))
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
        None => gate.switch(Vec::new()),
        Some(Some(body)) => gate.switch(body.not_over(gate.now()).switched_off()),
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
