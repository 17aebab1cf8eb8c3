//! The terms of all tenants, beside the snapshot: one of them changes without the others being looked at.
//!
//! A snapshot has a *book* of tenants: an [`index`] from a tenant to the number of its terms, and an [`arena`] of these, compiled for the
//! places of this snapshot. Decisions read both without a lock. Terms that many tenants have in common are there once. What
//! is written stands behind a lock elsewhere ([`Tenants`]): the terms as they were told, from which the book of the next snapshot is made.
//!
//! Nothing in a book is ever taken out or moved, so references live as long as the snapshot. When there is no room any more, or too
//! much of it is taken by what nobody has, the same rules get a new book: the snapshot is copied, and the copy takes its place. A snapshot
//! that was replaced stays as it was, so that whoever still goes by it finds what belongs together.

mod arena;
mod compiled;
mod index;
mod seeking;
mod subjects;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use tollgate_core::Time;

use self::arena::Arena;
pub use self::compiled::OVERRIDE_RULES_MAX;
pub(crate) use self::compiled::Way;
use self::compiled::{Compiled, Compiler, InForce};
use self::index::{Index, TenantHasher};
pub use self::seeking::{Prefetch, Seeking, Sought};
pub use self::subjects::TenantSubject;
use crate::map::Map;
use crate::rule::Allowance;
use crate::snapshot::{Place, Snapshot};
use crate::tenant::{Target, TenantTerms};
use crate::tree::{Entry, PlaceIndex};

/// The most tenants that have terms.
pub const TENANTS_MAX: usize = 4_000_000;

/// So many terms that nobody has are not worth a new book.
const UNUSED_MIN: usize = 1_024;

/// What a snapshot knows of tenants.
pub(crate) struct Book {
    hasher: TenantHasher,
    index: Arc<Index>,
    /// By number, less one.
    arena: Arena<Compiled>,
}

/// A tenant that has terms, or had some.
#[derive(Clone, Copy, Debug)]
pub struct Standing<'a> {
    in_force: Option<InForce<'a>>,
}

impl<'a> Standing<'a> {
    /// Its tier, if its terms name one.
    #[inline]
    pub fn tier(self) -> Option<&'a str> {
        self.in_force?.tier()
    }

    /// What it may at a place under one of its limits, if its terms say so. The entries are those of the descriptor; a policy's key has none.
    #[inline]
    pub fn allowance(
        self,
        place: PlaceIndex,
        limit_index: usize,
        entries: &[Entry<'_>],
    ) -> Option<&'a Allowance> {
        self.in_force?.allowance(place, limit_index, entries)
    }
}

impl Snapshot {
    /// How a tenant stands at a moment. Nothing, if it never had terms of its own. Whoever has other things to do meanwhile may [`Snapshot::seek`] it.
    pub fn standing(&self, tenant: &[u8], now: Time) -> Option<Standing<'_>> {
        Some(self.book.get()?.seek(tenant).find()?.standing(now))
    }

    /// Whether any tenant has terms, or had some.
    #[inline]
    pub fn knows_tenants(&self) -> bool {
        self.book.get().is_some()
    }

    /// What there is to say about terms under these rules: overrides that match nothing, and numbers that a limit cannot have. Those have no effect.
    /// `is_shared` tells whether counts are shared.
    pub fn check_terms(&self, terms: &TenantTerms, is_shared: bool) -> Vec<String> {
        let mut compiler = Compiler { snapshot: self, is_shared, is_trial: true, warnings: Vec::new() };
        compiler.compile(terms);
        for tier in terms.phases.iter().filter_map(|phase| phase.tier.as_deref()) {
            let has_tier = |place: &Place| place.tier_ids.iter().any(|(name, _)| **name == *tier);
            if !self.places().any(has_tier) {
                compiler.warnings.push(format!("tier \"{tier}\": no rule has such a tier at present"));
            }
        }
        compiler.warnings
    }
}

impl fmt::Debug for Book {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Book").field("tenants", &self.index.used()).finish_non_exhaustive()
    }
}

/// More tenants than [`TENANTS_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyTenants;

impl fmt::Display for TooManyTenants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {TENANTS_MAX} tenants can have terms of their own")
    }
}

impl std::error::Error for TooManyTenants {}

/// The terms of all tenants as they were told. Whoever writes has it alone.
pub struct Tenants {
    hasher: TenantHasher,
    /// That of the newest book.
    index: Arc<Index>,
    /// Different terms, by number, less one.
    kept: Vec<Kept>,
    numbers: Map<Arc<TenantTerms>, u32>,
    targets: HashSet<Arc<Target>>,
    /// How many tenants have terms.
    live: usize,
    /// How many of the terms nobody has.
    unused: usize,
    is_shared: bool,
}

struct Kept {
    terms: Arc<TenantTerms>,
    /// How many tenants have them.
    users: u32,
}

impl Default for Tenants {
    fn default() -> Tenants {
        Tenants {
            hasher: TenantHasher::random(),
            index: Arc::new(Index::with_room(0)),
            kept: Vec::new(),
            numbers: Map::default(),
            targets: HashSet::new(),
            live: 0,
            unused: 0,
            is_shared: false,
        }
    }
}

impl Tenants {
    /// How many have terms.
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether nobody has any.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Whether counts are shared. To be said before anybody has terms.
    pub fn set_shared(&mut self, is_shared: bool) {
        self.is_shared = is_shared;
    }

    /// The terms of a tenant.
    pub fn terms(&self, tenant: &str) -> Option<&Arc<TenantTerms>> {
        let number = self.index.find(self.hasher.hash(tenant.as_bytes()))?;
        self.kept.get((number as usize).checked_sub(1)?).map(|kept| &kept.terms)
    }

    /// Changes the terms of one tenant, in the book of the snapshot that is in force. Where that has no more room, the snapshot that
    /// is to take its place is returned: the same rules with a new book.
    pub fn set(
        &mut self,
        tenant: &str,
        terms: Option<TenantTerms>,
        snapshot: Option<&Snapshot>,
    ) -> Result<Option<Snapshot>, TooManyTenants> {
        let hash = self.hasher.hash(tenant.as_bytes());
        let had = self.index.find(hash);
        let terms = terms.filter(|terms| !terms.is_empty());
        if terms.is_none() && had.unwrap_or(0) == 0 {
            return Ok(None);
        }
        if terms.is_some() && had.unwrap_or(0) == 0 && self.live >= TENANTS_MAX {
            return Err(TooManyTenants);
        }
        let successor = if self.has_room(snapshot) { None } else { self.make_room(snapshot) };
        let number = terms.map_or(0, |terms| self.number(terms, successor.as_ref().or(snapshot)));
        let before = self.index.put(hash, number);
        self.count(before, number);
        Ok(successor)
    }

    /// Puts the terms of all tenants in the place of those before. The snapshot that is to take the place of this one is returned, if there is one.
    pub fn set_all(
        &mut self,
        all: impl Iterator<Item = (String, TenantTerms)>,
        snapshot: Option<&Snapshot>,
    ) -> Result<Option<Snapshot>, TooManyTenants> {
        let mut next =
            Tenants { hasher: self.hasher.clone(), is_shared: self.is_shared, ..Tenants::default() };
        let mut told = Vec::with_capacity(all.size_hint().0.min(TENANTS_MAX));
        let mut with_terms = 0;
        for (tenant, terms) in all {
            let has_terms = !terms.is_empty();
            with_terms += usize::from(has_terms);
            if with_terms > TENANTS_MAX {
                return Err(TooManyTenants);
            }
            let number = if has_terms { next.number(terms, None) } else { 0 };
            told.push((self.hasher.hash(tenant.as_bytes()), number));
        }
        let marked = self.marked(snapshot);
        next.index = Arc::new(Index::with_room(told.len() + if marked { self.index.used() } else { 0 }));
        if marked {
            for (hash, _) in self.index.iter() {
                next.index.put(hash, 0);
            }
        }
        for (hash, number) in told {
            let before = next.index.put(hash, number);
            next.count(before, number);
        }
        next.kept.shrink_to_fit();
        *self = next;
        Ok(snapshot.map(|snapshot| {
            let successor = snapshot.without_tenants();
            self.write_book(&successor, None);
            successor
        }))
    }

    /// Writes the book of a snapshot that is about to come into force, with other rules than the one before.
    pub fn introduce(&mut self, snapshot: &Snapshot, before: Option<&Snapshot>) {
        if self.index.used() > 0 {
            self.compact(self.marked(before) || self.marked(Some(snapshot)));
            self.write_book(snapshot, None);
        }
    }

    /// Whether there is room for one more tenant, with terms that are new.
    fn has_room(&self, snapshot: Option<&Snapshot>) -> bool {
        let arena_room = match snapshot.map(|snapshot| snapshot.book.get_or_init(|| self.book())) {
            Some(book) => book.arena.room(),
            None => usize::MAX,
        };
        let is_wasted = self.unused > UNUSED_MIN && self.unused > self.kept.len() / 2;
        self.index.has_room() && self.kept.len() < arena_room && !is_wasted
    }

    fn make_room(&mut self, snapshot: Option<&Snapshot>) -> Option<Snapshot> {
        let were = self.compact(self.marked(snapshot));
        snapshot.map(|snapshot| {
            let successor = snapshot.without_tenants();
            self.write_book(&successor, snapshot.book.get().map(|book| (book, were.as_slice())));
            successor
        })
    }

    /// Whether tenants have to be known that have no terms any more: where they were counted in other ways than everybody else is.
    fn marked(&self, snapshot: Option<&Snapshot>) -> bool {
        let has_more = |snapshot: &Snapshot| {
            snapshot.places().any(|place| place.limits.iter().any(|limit| !limit.more.is_empty()))
        };
        self.index.used() <= TENANTS_MAX + TENANTS_MAX / 2 && snapshot.is_some_and(has_more)
    }

    /// Numbers anew the terms that anybody has, in an index of its own. For each, its number before is returned.
    fn compact(&mut self, is_marked: bool) -> Vec<u32> {
        let mut numbers = vec![0_u32; self.kept.len() + 1];
        let mut were = Vec::with_capacity(self.kept.len() - self.unused);
        let mut kept = Vec::with_capacity(self.kept.len() - self.unused);
        for (at, each) in std::mem::take(&mut self.kept).into_iter().enumerate() {
            if each.users > 0 {
                let was = u32::try_from(at + 1).unwrap_or(0);
                were.push(was);
                kept.push(each);
                numbers[at + 1] = u32::try_from(kept.len()).unwrap_or(0);
            }
        }
        let tenants = if is_marked { self.index.used() } else { self.live };
        let index = Index::with_room(tenants);
        for (hash, number) in self.index.iter().filter(|(_, number)| is_marked || *number != 0) {
            index.put(hash, numbers[number as usize]);
        }
        self.numbers.clear();
        self.numbers.shrink_to_fit();
        let numbered = kept.iter().zip(1..).map(|(each, number)| (Arc::clone(&each.terms), number));
        self.numbers = numbered.collect();
        self.targets.retain(|target| Arc::strong_count(target) > 1);
        (self.index, self.kept, self.unused) = (Arc::new(index), kept, 0);
        were
    }

    fn book(&self) -> Book {
        let arena = Arena::with_room(self.kept.len());
        Book { hasher: self.hasher.clone(), index: Arc::clone(&self.index), arena }
    }

    /// Compiles all terms for a snapshot that nobody knows yet. Where another book has them compiled for the same rules, they are taken
    /// from there, by the numbers that they had.
    fn write_book(&self, snapshot: &Snapshot, same: Option<(&Book, &[u32])>) {
        let book = snapshot.book.get_or_init(|| self.book());
        for (at, kept) in self.kept.iter().enumerate() {
            let known = same.and_then(|(book, were)| book.arena.get(*were.get(at)? as usize - 1));
            let compiled = known.cloned().unwrap_or_else(|| self.compile(&kept.terms, snapshot));
            book.arena.put(at, compiled);
        }
    }

    fn compile(&self, terms: &TenantTerms, snapshot: &Snapshot) -> Compiled {
        let is_shared = self.is_shared;
        Compiler { snapshot, is_shared, is_trial: false, warnings: Vec::new() }.compile(terms)
    }

    /// The number of terms, which are compiled if they are new. There must be room for them.
    fn number(&mut self, mut terms: TenantTerms, snapshot: Option<&Snapshot>) -> u32 {
        if let Some(number) = self.numbers.get(&terms) {
            return *number;
        }
        terms.phases.shrink_to_fit();
        terms.phases.iter_mut().for_each(|phase| phase.overrides.shrink_to_fit());
        for wanted in terms.phases.iter_mut().flat_map(|phase| &mut phase.overrides) {
            if let Some(known) = self.targets.get(&wanted.target) {
                wanted.target = Arc::clone(known);
            } else {
                self.targets.insert(Arc::clone(&wanted.target));
            }
        }
        if let Some(snapshot) = snapshot {
            let compiled = self.compile(&terms, snapshot);
            snapshot.book.get_or_init(|| self.book()).arena.put(self.kept.len(), compiled);
        }
        let terms = Arc::new(terms);
        self.kept.push(Kept { terms: Arc::clone(&terms), users: 0 });
        self.unused += 1;
        let number = u32::try_from(self.kept.len()).unwrap_or(0);
        self.numbers.insert(terms, number);
        number
    }

    /// Keeps account of who has which terms.
    fn count(&mut self, before: u32, number: u32) {
        if let Some(kept) = (before as usize).checked_sub(1).and_then(|at| self.kept.get_mut(at)) {
            kept.users -= 1;
            self.live -= 1;
            self.unused += usize::from(kept.users == 0);
        }
        if let Some(kept) = (number as usize).checked_sub(1).and_then(|at| self.kept.get_mut(at)) {
            self.unused -= usize::from(kept.users == 0);
            kept.users += 1;
            self.live += 1;
        }
    }
}

impl fmt::Debug for Tenants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tenants, terms, unused) = (self.live, self.kept.len(), self.unused);
        let mut debug = f.debug_struct("Tenants");
        debug
            .field("tenants", &tenants)
            .field("terms", &terms)
            .field("unused", &unused)
            .finish_non_exhaustive()
    }
}
