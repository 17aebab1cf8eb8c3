//! Whose counter: keys without collisions, and who is in the first percent of them.

use tollgate_policy::{Entry, Place, PlacedLimit, put_part};

/// What the key of a limit that a request brought along begins with. The prefixes of rules begin with smaller numbers.
const OWN_LIMIT: u8 = 0x80;
/// What the key of a caller that brings its numbers with every call begins with.
const THROTTLE: u8 = 0x81;

/// Longest buffer kept for the next key. A longer one is given back: one huge value must not cost a megabyte for ever.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// Whom a place counts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Counted<'a> {
    /// The key that a policy is asked with.
    Key(&'a [u8]),
    /// Those whom the entries of a descriptor name.
    Entries(&'a [Entry<'a>]),
}

impl<'a> Counted<'a> {
    /// The entries. The key of a policy has none.
    pub(crate) fn entries(self) -> &'a [Entry<'a>] {
        match self {
            Counted::Key(_) => &[],
            Counted::Entries(entries) => entries,
        }
    }
}

/// The buffer in which keys are put together.
#[derive(Debug, Default)]
pub(crate) struct KeyBuffer(Vec<u8>);

impl KeyBuffer {
    /// The key of a counter at a place.
    pub(crate) fn of(&mut self, place: &Place, limit: &PlacedLimit, counted: Counted<'_>) -> &[u8] {
        self.start(limit.key_prefix());
        match counted {
            Counted::Key(key) => put_part(&mut self.0, key),
            Counted::Entries(entries) => {
                for value in place.counted(entries) {
                    put_part(&mut self.0, value.as_bytes());
                }
            }
        }
        &self.0
    }

    /// The key of a limit that the request brought along: all of its descriptor.
    pub(crate) fn of_own_limit(&mut self, domain: &str, entries: &[Entry<'_>]) -> &[u8] {
        self.start(&[OWN_LIMIT]);
        put_part(&mut self.0, domain.as_bytes());
        for (key, value) in entries {
            put_part(&mut self.0, key.as_bytes());
            put_part(&mut self.0, value.as_bytes());
        }
        &self.0
    }

    /// The key of a caller that brings its numbers with every call.
    pub(crate) fn of_throttle(&mut self, key: &[u8]) -> &[u8] {
        self.start(&[THROTTLE]);
        self.0.extend_from_slice(key);
        &self.0
    }

    /// Whatever is put together from nothing.
    pub(crate) fn put(&mut self, put: impl FnOnce(&mut Vec<u8>)) -> &[u8] {
        self.start(&[]);
        put(&mut self.0);
        &self.0
    }

    fn start(&mut self, prefix: &[u8]) {
        self.0.clear();
        self.0.shrink_to(KEPT_BYTES_MAX);
        self.0.extend_from_slice(prefix);
    }
}

/// What the secret of a rollout is used for. A key that is derived for one purpose tells nothing about another.
const ROLLOUT: &str = "tollgate 2026-11 enforce_percent";

/// Chooses the keys for which a limit with `enforce_percent` is enforced. The choice depends on a secret, so that a client cannot
/// compute which names are counted only.
#[derive(Clone, Debug)]
pub(crate) struct Rollout([u8; blake3::KEY_LEN]);

impl Rollout {
    /// The choice of all processes that know this secret.
    pub(crate) fn new(secret: &[u8]) -> Rollout {
        Rollout(blake3::derive_key(ROLLOUT, secret))
    }

    /// A choice that no other process makes.
    pub(crate) fn of_process() -> Result<Rollout, getrandom::Error> {
        let mut secret = [0; blake3::KEY_LEN];
        getrandom::fill(&mut secret)?;
        Ok(Rollout::new(&secret))
    }

    /// A number below 100 that belongs to the key. It is the same whatever the percentage is, so that a rollout only adds keys as
    /// its percentage grows.
    pub(crate) fn percentile(&self, key: &[u8]) -> u8 {
        let hash = blake3::keyed_hash(&self.0, key);
        let hash = hash.as_bytes().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        // The product of a 64-bit number and 100, without its low half, is below 100.
        u8::try_from((u128::from(hash) * 100) >> 64).unwrap_or(0)
    }
}
