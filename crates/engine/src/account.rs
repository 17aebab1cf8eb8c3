//! Whose usage is written down where counts are kept for people to read.
//!
//! A counter has a hash for a name. What it counts, a bill has to say in words: the tenant, or else what the rule tells counters apart by, and the
//! rule. Texts come from requests, so they are cut to a length; what is cut off still tells two of them apart.

use std::sync::Arc;

use tollgate_policy::Place;
use tollgate_store::authority::Account;

use crate::key::Counted;

/// The longest name of a subject or a rule, in bytes.
const NAME_BYTES_MAX: usize = 256;
/// How much of a hash stands for what was cut off, in bytes.
const CUT_BYTES: usize = 8;

/// Whose usage, in what a request and its rules say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccountOf<'a> {
    pub(crate) tenant: Option<&'a str>,
    pub(crate) counted: Counted<'a>,
    pub(crate) place: &'a Place,
    pub(crate) limit_index: usize,
}

impl AccountOf<'_> {
    /// As it is written down.
    pub(crate) fn written(self) -> Arc<Account> {
        let subject = match (self.tenant, self.counted) {
            (Some(tenant), _) => tenant.to_owned(),
            (None, Counted::Key(key)) => String::from_utf8_lossy(key).into_owned(),
            (None, Counted::Entries(entries)) => {
                let counted = self.place.counted_entries(entries);
                let named: Vec<String> = counted.map(|(key, value)| format!("{key}={value}")).collect();
                named.join(", ")
            }
        };
        let mut rule = self.place.to_string();
        if let [_, _, ..] = self.place.limits()
            && let Some(limit) = self.place.limits().get(self.limit_index)
        {
            rule.extend([" / ", limit.title()]);
        }
        Arc::new(Account { subject: cut(subject), rule: cut(rule) })
    }
}

/// A name without what no database takes, and not too long.
fn cut(name: String) -> Box<str> {
    let name = if name.contains('\0') { name.replace('\0', "\u{fffd}") } else { name };
    if name.len() <= NAME_BYTES_MAX {
        return name.into();
    }
    let mut end = NAME_BYTES_MAX - 2 * CUT_BYTES - 1;
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let mut short = name[..end].to_owned();
    let hash = blake3::hash(name.as_bytes()).to_hex();
    short.extend(["~", &hash[..2 * CUT_BYTES]]);
    short.into()
}

#[cfg(test)]
mod tests;
