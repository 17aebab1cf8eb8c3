//! The keys of the format: one table for each place, from which both the reader and the JSON schema know them.

pub(crate) mod forward_auth;
pub(crate) mod terms;

use strsim::damerau_levenshtein;

/// The keys of one place.
#[derive(Debug)]
pub(crate) struct Table {
    /// What the schema calls it.
    pub(crate) id: &'static str,
    /// What a person calls one of it.
    pub(crate) title: &'static str,
    /// Where it stands.
    pub(crate) home: &'static str,
    /// Its keys, in groups that places share.
    pub(crate) groups: &'static [&'static [Key]],
    /// Those that cannot be left out, whatever else is given.
    pub(crate) required: &'static [&'static str],
}

/// A key.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// What it means, in a line.
    pub(crate) doc: &'static str,
}

/// What a key's value is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Any scalar, taken as it is written.
    Text,
    /// The same, of so many characters at most.
    TextUpTo(usize),
    /// Text that is told to clients.
    Name,
    Boolean,
    /// A whole number, from a least to a greatest.
    Whole(u64, u64),
    /// From 0 to 1, in hundredths.
    Fraction,
    /// Such as `1m30s`.
    Duration,
    /// One of these words.
    Choice(&'static [&'static str]),
    One(&'static Table),
    ListOf(&'static Table),
    MapOf(&'static Table),
    MapOfText,
    /// A mapping of anything.
    Anything,
}

/// More keys than these are not read: those who look for one find it in the documents.
const KEYS_LISTED_MAX: usize = 22;
/// The longest name of a domain. This and the next two are part of the key of every counter below them.
pub(crate) const DOMAIN_CHARS_MAX: usize = 256;
/// The longest key of a descriptor.
pub(crate) const KEY_CHARS_MAX: usize = 256;
/// The longest value of a descriptor.
pub(crate) const VALUE_CHARS_MAX: usize = 1_024;
/// The longest name that is told to clients.
pub(crate) const NAME_CHARS_MAX: usize = 128;

pub(crate) const UNITS: &[&str] = &["second", "minute", "hour", "day", "week", "month", "year"];
pub(crate) const ALGORITHMS: &[&str] =
    &["token_bucket", "leaky_bucket", "fixed_window", "sliding_window", "sliding_log", "concurrency"];
pub(crate) const CALENDAR_UNITS: &[&str] = &["day", "week", "month"];
pub(crate) const OVERSHOOTS: &[&str] = &["deny", "book"];
pub(crate) const CONSISTENCIES: &[&str] = &["local", "exact", "leased"];
pub(crate) const FAIL_MODES: &[&str] = &["open", "closed", "local"];

pub(crate) static ROOT: Table = Table {
    id: "file",
    title: "a file of rules",
    home: "at the top of the file",
    groups: &[ROOT_KEYS],
    required: &[],
};
pub(crate) static DESCRIPTOR: Table = Table {
    id: "descriptor",
    title: "a descriptor",
    home: "inside an entry of `descriptors`",
    groups: &[&DESCRIPTOR_KEYS],
    required: &["key"],
};
pub(crate) static RATE_LIMIT: Table = Table {
    id: "rate_limit",
    title: "a `rate_limit`",
    home: "inside `rate_limit`",
    groups: &[NUMBER_KEYS, LIMIT_KEYS],
    required: &[],
};
pub(crate) static TIER: Table = Table {
    id: "tier",
    title: "a tier",
    home: "inside a tier of `tiers`",
    groups: &[NUMBER_KEYS],
    required: &[],
};
pub(crate) static POLICY: Table = Table {
    id: "policy",
    title: "a policy",
    home: "inside a policy of `policies`",
    groups: &[NUMBER_KEYS, LIMIT_KEYS, POLICY_KEYS],
    required: &[],
};
pub(crate) static REPLACED: Table = Table {
    id: "replaced",
    title: "an entry of `replaces`",
    home: "inside an entry of `replaces`",
    groups: &[REPLACED_KEYS],
    required: &["name"],
};

/// The places of rules, the most likely home of a misplaced key first.
static RULE_TABLES: [&Table; 6] = [&ROOT, &DESCRIPTOR, &RATE_LIMIT, &POLICY, &REPLACED, &TIER];

/// All places, those of rules first.
pub(crate) fn tables() -> impl Iterator<Item = &'static Table> {
    RULE_TABLES.into_iter().chain(forward_auth::TABLES)
}

const fn key(name: &'static str, kind: Kind, doc: &'static str) -> Key {
    Key { name, kind, doc }
}

#[rustfmt::skip]
const ROOT_KEYS: &[Key] = &[
    key("domain", Kind::TextUpTo(DOMAIN_CHARS_MAX), "The name under which a proxy asks for these rules; one per file, and no two files the same."),
    key("descriptors", Kind::ListOf(&DESCRIPTOR), "The rules of the domain: the first level of a tree."),
    key("policies", Kind::MapOf(&POLICY), "Named policies, for callers that build their own keys."),
    key("tenant_key", Kind::Text, "The key of the descriptor entry whose value is the tenant."),
    key("tenants", Kind::MapOfText, "The tier of each tenant."),
    key("enabled", Kind::Boolean, "Whether the rules of the domain are in force; false lets everything pass."),
    key("forward_auth", Kind::ListOf(&forward_auth::RECIPE), "How descriptors are made, one an entry, of requests that proxies other than Envoy ask about."),
];

/// A static, because descriptors hold descriptors.
#[rustfmt::skip]
static DESCRIPTOR_KEYS: [Key; 12] = [
    key("key", Kind::TextUpTo(KEY_CHARS_MAX), "The key that an entry of the request must have."),
    key("value", Kind::TextUpTo(VALUE_CHARS_MAX), "The value it must have; `*` stands for any text. Absent: any value, with a counter for each."),
    key("rate_limit", Kind::One(&RATE_LIMIT), "The limit of requests that end here."),
    key("rate_limits", Kind::ListOf(&RATE_LIMIT), "Several limits, all of which must admit a request."),
    key("shadow_mode", Kind::Boolean, "Counts and reports, and never denies."),
    key("quota_mode", Kind::Boolean, "Denies only if all quota rules of the request are over."),
    key("detailed_metric", Kind::Boolean, "Accepted for envoyproxy/ratelimit's sake; metrics never carry keys."),
    key("value_to_metric", Kind::Boolean, "Accepted for envoyproxy/ratelimit's sake; metrics never carry keys."),
    key("share_threshold", Kind::Boolean, "Whether all values that match the `*` share one counter."),
    key("metadata", Kind::Anything, "What is returned to the proxy along with the answer."),
    key("enabled", Kind::Boolean, "Whether the rule is in force; false passes it by."),
    key("descriptors", Kind::ListOf(&DESCRIPTOR), "The next level of the tree: what the request's next entry may be."),
];

/// How much: what a tier may say anew.
#[rustfmt::skip]
const NUMBER_KEYS: &[Key] = &[
    key("requests_per_unit", Kind::Whole(0, u64::MAX), "How many per unit; 0 blocks."),
    key("unit", Kind::Choice(UNITS), "The unit of time. A month has 30 days and a year 365."),
    key("requests", Kind::Whole(0, u64::MAX), "How many per period; another word for requests_per_unit. 0 blocks."),
    key("period", Kind::Duration, "A length of time of any size, such as 250ms, 90s, 1m30s or 2w; instead of a unit."),
    key("burst", Kind::Whole(1, u64::MAX), "How many may come at once: the size of the bucket."),
    key("unlimited", Kind::Boolean, "Lets everything pass, uncounted. A requests_per_unit beside it has no effect; a unit, period, calendar or burst is a mistake."),
];

#[rustfmt::skip]
const LIMIT_KEYS: &[Key] = &[
    key("name", Kind::Name, "The limit's name, told to clients."),
    key("replaces", Kind::ListOf(&REPLACED), "Limits that are dropped when this one applies to the same request."),
    key("algorithm", Kind::Choice(ALGORITHMS), "How it counts: sliding_window by default, token_bucket if there is a burst."),
    key("calendar", Kind::Choice(CALENDAR_UNITS), "A day, week or month of the calendar; instead of a unit."),
    key("zone", Kind::Text, "The time zone of the calendar, such as Europe/Berlin; UTC by default."),
    key("anchor_day", Kind::Whole(1, 31), "The day on which the months of a calendar begin, 1 by default; the last where a month has no such day."),
    key("sub_windows", Kind::Whole(1, 64), "Into how many parts a sliding window is cut, for a sharper edge."),
    key("max_wait", Kind::Duration, "Makes the leaky bucket a queue in which nobody waits for longer."),
    key("jitter", Kind::Boolean, "Lets every key's windows begin at a time of its own."),
    key("overshoot", Kind::Choice(OVERSHOOTS), "What becomes of a cost beyond what is left: denied, or booked as debt."),
    key("enforce_percent", Kind::Whole(0, 100), "For how many of a hundred keys the limit is enforced; others are counted only."),
    key("consistency", Kind::Choice(CONSISTENCIES), "Who decides: this process, a shared count, or leases of it."),
    key("durable", Kind::Boolean, "Whether the count is kept in the database: exact, and still there after a crash."),
    key("fail_mode", Kind::Choice(FAIL_MODES), "What happens while the shared count is out of reach: local by default, closed if it is durable."),
    key("local_fraction", Kind::Fraction, "The part of the limit that a node spends on its own then, or has in leases at most."),
    key("strict", Kind::Boolean, "Whether leases take nothing beyond the limit, for which the shared count admits less at once."),
    key("lease_when_hot", Kind::Boolean, "Whether units are leased for keys that take a large part of all requests, for as long as they do."),
    key("tiers", Kind::MapOf(&TIER), "Other numbers for tenants of a tier."),
];

#[rustfmt::skip]
const POLICY_KEYS: &[Key] = &[
    key("rate_limits", Kind::ListOf(&RATE_LIMIT), "Several limits, all of which must admit a request."),
    key("shadow_mode", Kind::Boolean, "Counts and reports, and never denies."),
    key("enabled", Kind::Boolean, "Whether the policy is in force; false lets everything pass."),
    key("metadata", Kind::Anything, "What is returned along with the answer."),
];

const REPLACED_KEYS: &[Key] = &[key("name", Kind::Name, "The name of the limit that is dropped.")];

/// What people write who know other limiters, and what it is called here.
const SYNONYMS: &[(&str, &str)] = &[
    ("limit", "requests"),
    ("max", "requests"),
    ("count", "requests"),
    ("rate", "requests"),
    ("rps", "requests_per_unit"),
    ("duration", "period"),
    ("interval", "period"),
    ("window", "period"),
    ("per", "unit"),
    ("timezone", "zone"),
    ("tz", "zone"),
    ("anchor", "anchor_day"),
    ("billing_day", "anchor_day"),
    ("persistent", "durable"),
    ("shadow", "shadow_mode"),
    ("dry_run", "shadow_mode"),
    ("disabled", "enabled"),
    ("type", "algorithm"),
    ("strategy", "algorithm"),
    ("max_burst", "burst"),
    ("rules", "descriptors"),
    ("tenant", "tenant_key"),
];

impl Table {
    /// All its keys.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &'static Key> + use<> {
        self.groups.iter().flat_map(|group| group.iter())
    }

    /// The key of this name.
    pub(crate) fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys().find(|key| key.name == name)
    }

    /// The key of this table that was probably meant by one that is not in it.
    pub(crate) fn meant(&self, unknown: &str) -> Option<&'static str> {
        nearest(unknown, self.keys().map(|key| key.name)).or_else(|| {
            let synonym = SYNONYMS.iter().find(|(word, _)| *word == unknown);
            synonym.map(|(_, name)| *name).filter(|name| self.key(name).is_some())
        })
    }

    /// What to say to whoever wrote a key that is not in this table.
    pub(crate) fn advice(&self, unknown: &str) -> String {
        if let Some(advice) = forward_auth::missing(self, unknown) {
            return advice.to_owned();
        }
        if let Some(other) = tables().find(|table| table.key(unknown).is_some()) {
            return match (self.id, other.id) {
                ("rate_limit", "descriptor") => {
                    format!(
                        "`{unknown}` belongs to the descriptor: move it one level out, beside `rate_limit`"
                    )
                }
                ("tier", "rate_limit") => format!("`{unknown}` belongs {}, for all tiers alike", other.home),
                _ => format!("`{unknown}` belongs {}", other.home),
            };
        }
        if let Some(name) = self.meant(unknown) {
            return format!("did you mean `{name}`?");
        }
        let elsewhere = tables().find_map(|table| Some((table.meant(unknown)?, table.home)));
        if let Some((name, home)) = elsewhere {
            return format!("did you mean `{name}`? That belongs {home}");
        }
        self.key_names()
    }

    /// What keys it has, in words.
    pub(crate) fn key_names(&self) -> String {
        let names: Vec<_> = self.keys().map(|key| key.name).collect();
        let (listed, rest) = names.split_at(names.len().min(KEYS_LISTED_MAX));
        let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
        format!("{} has the keys {}{more}", self.title, listed.join(", "))
    }
}

/// The word that was probably meant: one that differs by few strokes, or only by case and separators.
pub(crate) fn nearest<'a>(wrong: &str, words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // Longer words are none of ours, and comparing is quadratic.
    const CHARS_MAX: usize = 64;
    // Where words are a person's own, there may be any number of them.
    const WORDS_MAX: usize = 256;
    if wrong.is_empty() || wrong.chars().count() > CHARS_MAX {
        return None;
    }
    let bare = |word: &str| {
        word.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
    };
    let bare_wrong = bare(wrong);
    let strokes = |word: &str| {
        let strokes_max = word.len().max(wrong.len()) / 3;
        let bare_length = word.bytes().filter(u8::is_ascii_alphanumeric).count();
        // Letters that one of the words has too many take a stroke each.
        if bare_length.abs_diff(bare_wrong.len()) > strokes_max {
            return None;
        }
        Some(damerau_levenshtein(&bare_wrong, &bare(word))).filter(|strokes| *strokes <= strokes_max)
    };
    words
        .take(WORDS_MAX)
        .filter(|word| word.chars().count() <= CHARS_MAX)
        .filter_map(|word| Some((strokes(word)?, word)))
        .min_by_key(|(strokes, _)| *strokes)
        .map(|(_, word)| word)
}
