//! What is sent to ban or to boost a key.

use serde::Deserialize;
use tollgate::policy::Snapshot;

use super::super::moment;
use super::super::problem::{Mistake, Problem};
use crate::admin::documents::{ActName, DescriptorBody, EntryBody, KeyBody, KeySubjectBody};
use crate::protocol::http::Object;

/// Names and keys have at most so many bytes.
const TEXT_BYTES_MAX: usize = 4_096;
const ENTRIES_MAX: usize = 32;
const REASON_CHARACTERS_MAX: usize = 512;
/// A thousand times as much is as good as no limit.
const PERCENT_MAX: u32 = 100_000;

const HOW: &str = r#"send {"policy": "...", "key": "..."} or {"domain": "...", "descriptors": [{"entries": [{"key": "...", "value": "..."}]}]}"#;

/// The body, as it is sent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ActFields {
    policy: Option<String>,
    key: Option<String>,
    domain: Option<String>,
    descriptors: Option<Vec<Object<DescriptorBody>>>,
    until: String,
    percent: Option<u32>,
    reason: Option<String>,
}

impl ActFields {
    /// What is stored of it.
    pub(super) fn checked(self, act: ActName) -> Result<KeyBody, Problem> {
        let until_ms = moment::parse_ms(&self.until);
        let until_ms = until_ms.ok_or_else(|| Problem::Invalid(vec![moment::wrong("until", &self.until)]))?;
        match (act, self.percent) {
            (ActName::Ban, None) | (ActName::Boost, Some(1..=PERCENT_MAX)) => {}
            (ActName::Ban, Some(_)) => {
                return Err(Problem::invalid(
                    "a ban has no `percent`",
                    "nothing passes; to give less or more, boost",
                ));
            }
            (ActName::Boost, _) => {
                let what = format!("`percent` has to be a whole number from 1 to {PERCENT_MAX}");
                return Err(Problem::invalid(what, "200 is twice as much"));
            }
        }
        if self.reason.as_ref().is_some_and(|reason| reason.chars().count() > REASON_CHARACTERS_MAX) {
            let what = format!("`reason` has more than {REASON_CHARACTERS_MAX} characters");
            return Err(Problem::invalid(what, "say it in a sentence"));
        }
        let (percent, reason, until) = (self.percent, self.reason.clone(), moment::of_ms(until_ms));
        Ok(KeyBody { act, subject: self.subject()?, until, percent, reason })
    }

    fn subject(self) -> Result<KeySubjectBody, Problem> {
        let subject = match (self.policy, self.key, self.domain, self.descriptors) {
            (Some(policy), Some(key), None, None) => KeySubjectBody::Policy { policy, key },
            (None, None, Some(domain), Some(descriptors)) => {
                let one = <[Object<DescriptorBody>; 1]>::try_from(descriptors);
                let [Object(one)] =
                    one.map_err(|_| Problem::invalid("there has to be one descriptor", HOW))?;
                KeySubjectBody::Descriptor { domain, descriptors: [one] }
            }
            _ => return Err(Problem::invalid("the body names no key", HOW)),
        };
        check(&subject)?;
        Ok(subject)
    }
}

/// Whether there is nothing left of it.
pub(super) fn is_over(body: &KeyBody, now_ms: i64) -> bool {
    moment::parse_ms(&body.until).is_none_or(|until_ms| until_ms <= now_ms)
}

/// What to say of that.
pub(super) fn over() -> Problem {
    Problem::invalid("`until` is over", "name a moment that is to come")
}

/// What of a key means nothing at present, most often because it is misspelt.
pub(super) fn warnings(subject: &KeySubjectBody, act: ActName, snapshot: &Snapshot) -> Vec<String> {
    let missing = match subject {
        KeySubjectBody::Policy { policy, .. } => {
            snapshot.policy(policy).is_none().then(|| format!("there is no policy {policy:?} at present"))
        }
        KeySubjectBody::Descriptor { domain, descriptors: [descriptor] } => {
            let entries: Vec<(&str, &str)> =
                descriptor.entries.iter().map(|entry| (&*entry.key, &*entry.value)).collect();
            match snapshot.domain(domain) {
                None => Some(format!("there is no domain {domain:?} at present")),
                Some(found) if found.find(&entries).is_none() => {
                    Some(format!("no rule of domain {domain:?} applies to these entries at present"))
                }
                Some(_) => None,
            }
        }
    };
    let effect = match act {
        ActName::Ban => "the ban denies only requests that name exactly this",
        ActName::Boost => "the boost changes nothing until there is one",
    };
    missing.map(|missing| format!("{missing}: {effect}")).into_iter().collect()
}

fn check(subject: &KeySubjectBody) -> Result<(), Problem> {
    let texts: Vec<&str> = match subject {
        KeySubjectBody::Policy { policy, key } => vec![policy, key],
        KeySubjectBody::Descriptor { domain, descriptors: [DescriptorBody { entries }] } => {
            if entries.is_empty() || entries.len() > ENTRIES_MAX {
                return Err(Problem::invalid(format!("a descriptor has 1 to {ENTRIES_MAX} entries"), HOW));
            }
            let parts = entries.iter().flat_map(|EntryBody { key, value }| [key.as_str(), value.as_str()]);
            std::iter::once(domain.as_str()).chain(parts).collect()
        }
    };
    if texts.iter().any(|text| text.len() > TEXT_BYTES_MAX) {
        let mistake = Mistake::new(format!("a name or key has more than {TEXT_BYTES_MAX} bytes"), HOW);
        return Err(Problem::Invalid(vec![mistake]));
    }
    Ok(())
}
