//! Four slots in one cache line, and the protocol by which threads share a slot.
//!
//! ```text
//!    0       8       16      24      32      40      48      56      64
//!   +-------+-------+-------+-------+-------+-------+-------+-------+
//!   | tag 0 | tag 1 | tag 2 | tag 3 | word 0| word 1| word 2| word 3|
//!   +-------+-------+-------+-------+-------+-------+-------+-------+
//!   tag:  EMPTY (never used), GONE (used before, free now), or the owner's:
//!
//!          63                                         3 2     0
//!         +--------------------------------------------+-------+
//!         | hash of the key that owns the slot         | level |    level: see [`super::level`]
//!         +--------------------------------------------+-------+
//!
//!   word: NO_WORD, or the owner's state XOR its tag with a level of zero
//! ```
//!
//! **Who may do what.** The word of an owned slot is changed by anybody, with one compare-and-swap and no lock
//! ([`Line::change`]). Who owns a slot is changed only under the lock of the line's block, and in this order:
//! take the word away, change the tag, put a word there. So whoever has read a tag, then a word, then the same
//! tag again, has read that tag's word.
//!
//! The level in the low bits of a tag is changed without a lock too ([`Line::mark`]), by a compare-and-swap that expects the
//! whole tag: once the slot has another owner, it fails. It says nothing about who owns the slot, so every comparison of
//! tags leaves it out.
//!
//! **Why the word is masked.** Between reading a word and swapping it, the slot may get another owner. The swap must
//! then fail, although the new owner's state may by chance be the very same number (two windows with three units
//! each). Masked with the tags of different owners, equal states are different words.

use super::level::{LEVEL_MASK, Level};
use crate::sync::{AtomicU64, Ordering};

pub(super) const SLOTS: usize = 4;

const EMPTY: u64 = 0;
const GONE: u64 = 1;
const NO_WORD: u64 = 0;

/// The hash of a key, as it stands in a slot: any number that has no other meaning there, without the bits of the level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tag(u64);

impl Tag {
    #[inline]
    pub(crate) fn of(hash: u64) -> Tag {
        Tag((hash & !LEVEL_MASK).max(LEVEL_MASK + 1))
    }

    #[inline]
    pub(crate) fn number(self) -> u64 {
        self.0
    }

    /// The key that a slot with these bits belongs to.
    fn owner(bits: u64) -> Option<Tag> {
        (bits > LEVEL_MASK).then_some(Tag(bits & !LEVEL_MASK))
    }

    /// Whether a slot with these bits is this key's, at whatever level.
    #[inline]
    fn owns(self, bits: u64) -> bool {
        (bits ^ self.0) <= LEVEL_MASK
    }
}

/// What `Line::change` has seen in a slot.
pub(super) struct Changed {
    pub(super) state: u64,
    pub(super) level: Level,
}

/// A key in its slot.
pub(super) struct Occupant {
    pub(super) tag: Tag,
    pub(super) level: Level,
    pub(super) state: u64,
}

/// What a search in one line found.
pub(super) enum Found {
    Slot(usize),
    /// Not in this line. If it has an empty slot, in no later one either.
    NotHere {
        ends: bool,
    },
}

#[repr(C, align(64))]
pub(super) struct Line {
    tags: [AtomicU64; SLOTS],
    words: [AtomicU64; SLOTS],
}

impl Line {
    #[cfg(loom)]
    pub(super) fn new() -> Line {
        let zeros = || std::array::from_fn(|_| AtomicU64::new(0));
        Line { tags: zeros(), words: zeros() }
    }

    /// Looks at all four tags rather than stopping at the right one: nobody can predict which that is, and a branch
    /// that is mispredicted costs more.
    #[inline]
    pub(super) fn find(&self, tag: Tag) -> Found {
        let (mut matches, mut ends) = (0_u32, false);
        for (slot, theirs) in self.tags.iter().enumerate() {
            // Acquire: pairs with the release in `own`, so that the word read next is not an earlier owner's. `change` reads
            // the tag once more behind the word, so that it is not a later one's either.
            let theirs = theirs.load(Ordering::Acquire);
            matches |= u32::from(tag.owns(theirs)) << slot;
            ends |= theirs == EMPTY;
        }
        match matches {
            0 => Found::NotHere { ends },
            _ => Found::Slot(matches.trailing_zeros() as usize),
        }
    }

    /// Applies `step` to the state of `tag` in this slot: what it answers, if anything, is stored. Returns the state that
    /// the answer was for and the level of the slot, or `None` if the slot is not, or no longer, that tag's.
    #[inline]
    pub(super) fn change(
        &self,
        slot: usize,
        tag: Tag,
        step: &mut impl FnMut(u64) -> Option<u64>,
    ) -> Option<Changed> {
        let word = &self.words[slot];
        loop {
            // Acquire: pairs with the release in `own`, so that the tag read next is not older than the word.
            let stored = word.load(Ordering::Acquire);
            let theirs = self.tags[slot].load(Ordering::Relaxed);
            if stored == NO_WORD || !tag.owns(theirs) {
                return None;
            }
            let settled = match step(stored ^ tag.0) {
                // Nothing to store: it is enough that the word has not changed hands in between.
                None => word.load(Ordering::Relaxed) == stored,
                // Release on success keeps the line's tags ordered for the next acquire of this word.
                Some(next) => word
                    .compare_exchange_weak(stored, next ^ tag.0, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok(),
            };
            if settled {
                return Some(Changed { state: stored ^ tag.0, level: Level::in_tag(theirs) });
            }
        }
    }

    /// Marks the slot of `tag` with another level than the one it was seen with. Does nothing if the slot has another owner or
    /// another level by now, and says so.
    pub(super) fn mark(&self, slot: usize, tag: Tag, seen: Level, level: Level) -> bool {
        let (seen, marked) = (tag.0 | seen.bits(), tag.0 | level.bits());
        // Relaxed: the level orders nothing. A read-modify-write continues the release sequence of `own`, so whoever acquires the
        // marked tag has acquired what `own` released.
        self.tags[slot].compare_exchange(seen, marked, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// The owner of a slot and its state, with a lock or without.
    pub(super) fn read(&self, slot: usize) -> Option<Occupant> {
        // Acquire, both: as in `find` and `change`.
        let bits = self.tags[slot].load(Ordering::Acquire);
        let stored = self.words[slot].load(Ordering::Acquire);
        let tag = Tag::owner(bits)?;
        let is_still_owner = tag.owns(self.tags[slot].load(Ordering::Relaxed));
        let occupant = Occupant { tag, level: Level::in_tag(bits), state: stored ^ tag.0 };
        (stored != NO_WORD && is_still_owner).then_some(occupant)
    }

    // What follows is called under the lock of the line's block. The lock orders the tags, so relaxed is enough
    // for them; the words are shared with `change`, which takes no lock.

    pub(super) fn tag(&self, slot: usize) -> Option<Tag> {
        Tag::owner(self.tags[slot].load(Ordering::Relaxed))
    }

    /// The level that an owned slot is marked with.
    pub(super) fn level(&self, slot: usize) -> Level {
        Level::in_tag(self.tags[slot].load(Ordering::Relaxed))
    }

    pub(super) fn is_empty(&self, slot: usize) -> bool {
        self.tags[slot].load(Ordering::Relaxed) == EMPTY
    }

    pub(super) fn has_empty(&self) -> bool {
        (0..SLOTS).any(|slot| self.is_empty(slot))
    }

    /// A slot nobody owns any more, but which may stand between an owner and its home.
    pub(super) fn is_gone(&self, slot: usize) -> bool {
        self.tags[slot].load(Ordering::Relaxed) == GONE
    }

    /// Takes the state away if it is still `state`, and with it the right to change it. The tag stays until
    /// [`Line::own`] or [`Line::leave`].
    pub(super) fn take_if(&self, slot: usize, state: u64) -> bool {
        let Some(tag) = self.tag(slot) else { return false };
        let stored = state ^ tag.0;
        // Acquire: what `own` writes next must not be seen before the word is gone.
        self.words[slot].compare_exchange(stored, NO_WORD, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Takes the state away, whatever it is.
    pub(super) fn take(&self, slot: usize) -> Option<u64> {
        let stored = self.words[slot].swap(NO_WORD, Ordering::AcqRel);
        self.tag(slot).filter(|_| stored != NO_WORD).map(|tag| stored ^ tag.0)
    }

    /// Gives a slot without a word to `tag`, at a level. True if the slot was empty before.
    pub(super) fn own(&self, slot: usize, tag: Tag, level: Level, state: u64) -> bool {
        let was_empty = self.is_empty(slot);
        // Release, both: pair with the acquires in `find`, `change` and `read`.
        self.tags[slot].store(tag.0 | level.bits(), Ordering::Release);
        self.words[slot].store(state ^ tag.0, Ordering::Release);
        was_empty
    }

    /// Frees a slot without a word. In a line that has no empty slot, others may have passed on to later lines, and
    /// a search for them must still pass: the slot is only gone. True if it became empty.
    pub(super) fn leave(&self, slot: usize) -> bool {
        let empties = self.has_empty();
        self.tags[slot].store(if empties { EMPTY } else { GONE }, Ordering::Relaxed);
        empties
    }

    /// Makes gone slots empty, where no search needs to pass any more. Says how many.
    pub(super) fn clear_gone(&self) -> usize {
        let gone = (0..SLOTS).filter(|&slot| self.is_gone(slot));
        gone.map(|slot| self.tags[slot].store(EMPTY, Ordering::Relaxed)).count()
    }
}
