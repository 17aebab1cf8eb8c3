//! What documents of the database mean to the engine. The admin API writes them after it has read them here; whoever applies them reads
//! them here again.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use tollgate::core::Time;
use tollgate::policy::Source;

use crate::gate::{SwitchTarget, SwitchedOff};
use crate::protocol::http::Object;

const NS_PER_MS: u64 = 1_000_000;

/// The id of the one document that says what is switched off.
pub(crate) const SWITCHES_ID: &str = "switches";

/// A document of kind `policy` as rules: a named policy, or a whole domain. The text of a policy begins on the second line.
pub(crate) fn policy_source(id: &str, is_domain: bool, body: &str) -> Source {
    let name = format!("policy {id}");
    if is_domain {
        return Source::new(name, body);
    }
    Source::new(name, format!("{{\"policies\": {{{}:\n{body}\n}}}}", quoted(id)))
}

/// Whether the body of a policy says a whole domain.
pub(crate) fn is_domain(body: &str) -> bool {
    #[derive(Deserialize)]
    struct Named {
        domain: Option<serde::de::IgnoredAny>,
    }
    serde_json::from_str::<Named>(body).is_ok_and(|named| named.domain.is_some())
}

/// What is switched off, as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SwitchBody {
    /// Everything.
    #[serde(default)]
    pub(crate) all: bool,
    /// These domains.
    #[serde(default)]
    pub(crate) domains: Vec<String>,
    /// These rules: `DOMAIN: PATH`, or `policy NAME`.
    #[serde(default)]
    pub(crate) rules: Vec<String>,
    /// Until when and why, by switch: `all`, `domain NAME` or `rule NAME`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) details: BTreeMap<String, SwitchDetail>,
}

/// Until when and why something is switched off.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SwitchDetail {
    /// RFC 3339; without it, until an operator switches it on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}

impl SwitchBody {
    /// The switches that are off. An end that cannot be read is taken for none.
    pub(crate) fn switched_off(&self) -> Vec<SwitchedOff> {
        let all = self.all.then_some(SwitchTarget::All);
        let domains = self.domains.iter().cloned().map(SwitchTarget::Domain);
        let rules = self.rules.iter().cloned().map(SwitchTarget::Rule);
        let switched_off = |target: SwitchTarget| {
            let detail = self.details.get(&target.to_string()).cloned().unwrap_or_default();
            let until_ms = detail.until.as_deref().and_then(moment_ms);
            let until = until_ms.map_or(Time::MAX, |ms| {
                Time::from_ticks(u64::try_from(ms).unwrap_or(0).saturating_mul(NS_PER_MS))
            });
            SwitchedOff { target, until, reason: detail.reason }
        };
        all.into_iter().chain(domains).chain(rules).map(switched_off).collect()
    }

    /// The same without what has ended by now.
    pub(crate) fn not_over(mut self, now: Time) -> SwitchBody {
        let over: Vec<SwitchTarget> = self
            .switched_off()
            .into_iter()
            .filter_map(|off| (off.until <= now).then_some(off.target))
            .collect();
        for target in over {
            self.details.remove(&target.to_string());
            match target {
                SwitchTarget::All => self.all = false,
                SwitchTarget::Domain(over) => self.domains.retain(|name| *name != over),
                SwitchTarget::Rule(over) => self.rules.retain(|name| *name != over),
            }
        }
        self
    }
}

/// A key that is banned or boosted, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeyBody {
    pub(crate) act: ActName,
    #[serde(flatten)]
    pub(crate) subject: KeySubjectBody,
    /// RFC 3339.
    pub(crate) until: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) percent: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ActName {
    Ban,
    Boost,
}

/// Which key is meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum KeySubjectBody {
    /// A key under a policy.
    Policy { policy: String, key: String },
    /// The entries of a descriptor.
    Descriptor { domain: String, descriptors: [DescriptorBody; 1] },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DescriptorBody {
    #[serde(deserialize_with = "objects")]
    pub(crate) entries: Vec<EntryBody>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EntryBody {
    pub(crate) key: String,
    pub(crate) value: String,
}

/// A list of objects, and of nothing that could be read as one.
fn objects<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let objects = Vec::<Object<T>>::deserialize(deserializer)?;
    Ok(objects.into_iter().map(|Object(item)| item).collect())
}

impl KeySubjectBody {
    /// The id of a key: 32 hexadecimal digits, the same for the same key.
    pub(crate) fn id(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        let mut put = |part: &str| {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        };
        match self {
            KeySubjectBody::Policy { policy, key } => ["policy", policy, key].into_iter().for_each(&mut put),
            KeySubjectBody::Descriptor { domain, descriptors: [descriptor] } => {
                ["descriptor", domain].into_iter().for_each(&mut put);
                descriptor.entries.iter().flat_map(|entry| [&*entry.key, &*entry.value]).for_each(put);
            }
        }
        hasher.finalize().to_hex()[..32].to_owned()
    }
}

/// The id under which a key is banned or boosted: of `{"policy": ..., "key": ...}`, or of a domain and one descriptor. Nothing if it names no key.
pub fn key_id(subject: &serde_json::Value) -> Option<String> {
    KeySubjectBody::deserialize(subject).ok().map(|subject| subject.id())
}

/// A text in quotes, as JSON has it.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The milliseconds since 1970 of a moment, as RFC 3339 writes it. It needs its distance from UTC: nobody knows where its writer is.
pub(crate) fn moment_ms(text: &str) -> Option<i64> {
    text.parse::<Timestamp>().ok().map(Timestamp::as_millisecond)
}
