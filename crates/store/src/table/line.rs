//! Four slots in one cache line, and the protocol by which threads share a slot.
//!
//! ```text
//!    0       8       16      24      32      40      48      56      64
//!   +-------+-------+-------+-------+-------+-------+-------+-------+
//!   | tag 0 | tag 1 | tag 2 | tag 3 | word 0| word 1| word 2| word 3|
//!   +-------+-------+-------+-------+-------+-------+-------+-------+
//!   tag:  EMPTY (never used), GONE (used before, free now), or the hash of the key that owns the slot
//!   word: NO_WORD, or the owner's state and level (see [`super::level`]) XOR its tag
//! ```
//!
//! **Who may do what.** The word of an owned slot is changed by anybody, with one compare-and-swap and no lock
//! ([`Line::change`]). Who owns a slot is changed only under the lock of the line's block, and in this order:
//! take the word away, change the tag, put a word there. So whoever has read a tag, then a word, then the same
//! tag again, has read that tag's word.
//!
//! **Why the word is masked.** Between reading a word and swapping it, the slot may get another owner. The swap must
//! then fail, although the new owner's state may by chance be the very same number (two windows with three units
//! each). Masked with the tags of different owners, equal states are different words.

use super::level::Word;
use crate::sync::{AtomicU64, Ordering};

pub(super) const SLOTS: usize = 4;

const EMPTY: u64 = 0;
const GONE: u64 = 1;
const NO_WORD: u64 = 0;

/// The hash of a key, as it stands in a slot: any number that has no other meaning there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tag(u64);

impl Tag {
    #[inline]
    pub(crate) fn of(hash: u64) -> Tag {
        Tag(hash.max(GONE + 1))
    }

    #[inline]
    pub(crate) fn number(self) -> u64 {
        self.0
    }

    /// The key that a slot with these bits belongs to.
    fn owner(bits: u64) -> Option<Tag> {
        (bits > GONE).then_some(Tag(bits))
    }
}

/// What became of a key.
pub(crate) struct Seen {
    /// The state that the last step was applied to.
    pub(crate) before: u64,
    /// The state after it.
    pub(crate) after: u64,
}

/// A key in its slot.
#[derive(Clone, Copy)]
pub(super) struct Occupant {
    pub(super) tag: Tag,
    pub(super) word: Word,
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

    /// The slot of `tag`. Looks at all four tags rather than stopping at the right one: which that is cannot be predicted, and a
    /// branch that is mispredicted costs more.
    #[inline]
    pub(super) fn slot_of(&self, tag: Tag) -> Option<usize> {
        let mut found = SLOTS;
        for (slot, theirs) in self.tags.iter().enumerate() {
            // Acquire: pairs with the release in `own`, so that the word read next is not an earlier owner's. `change` reads
            // the tag once more behind the word, so that it is not a later one's either.
            found = if theirs.load(Ordering::Acquire) == tag.0 { slot } else { found };
        }
        (found < SLOTS).then_some(found)
    }

    /// As [`Line::slot_of`], and says whether the search ends here.
    pub(super) fn find(&self, tag: Tag) -> Found {
        // Before the tags are searched: a line that has an empty slot has never passed a key on.
        let ends = self.has_empty();
        self.slot_of(tag).map_or(Found::NotHere { ends }, Found::Slot)
    }

    /// Applies `step` to the state of `tag` in this slot: what it answers, if anything, is stored. Returns the state that
    /// the answer was for, or `None` if the slot is not, or no longer, that tag's.
    #[inline]
    pub(super) fn change(
        &self,
        slot: usize,
        tag: Tag,
        step: &mut impl FnMut(u64) -> Option<Word>,
    ) -> Option<Seen> {
        let word = &self.words[slot];
        loop {
            // Acquire: pairs with the release in `own`, so that the tag read next is not older than the word.
            let stored = word.load(Ordering::Acquire);
            if stored == NO_WORD || self.tags[slot].load(Ordering::Relaxed) != tag.0 {
                return None;
            }
            let before = Word::from_bits(stored ^ tag.0).state();
            let Some(next) = step(before) else {
                // Nothing to store: it is enough that the word has not changed hands in between.
                if word.load(Ordering::Relaxed) == stored {
                    return Some(Seen { before, after: before });
                }
                continue;
            };
            // Release on success keeps the line's tags ordered for the next acquire of this word.
            let masked = next.bits() ^ tag.0;
            if word.compare_exchange_weak(stored, masked, Ordering::Release, Ordering::Relaxed).is_ok() {
                return Some(Seen { before, after: next.state() });
            }
        }
    }

    /// The owner of a slot and its state, with a lock or without.
    pub(super) fn read(&self, slot: usize) -> Option<Occupant> {
        // Acquire, both: as in `find` and `change`.
        let tag = Tag::owner(self.tags[slot].load(Ordering::Acquire))?;
        let stored = self.words[slot].load(Ordering::Acquire);
        let is_same = self.tags[slot].load(Ordering::Relaxed) == tag.0;
        (stored != NO_WORD && is_same).then_some(Occupant { tag, word: Word::from_bits(stored ^ tag.0) })
    }

    // What follows is called under the lock of the line's block. The lock orders the tags, so relaxed is enough
    // for them; the words are shared with `change`, which takes no lock.

    pub(super) fn tag(&self, slot: usize) -> Option<Tag> {
        Tag::owner(self.tags[slot].load(Ordering::Relaxed))
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

    /// Takes the word away if it is still `word`, and with it the right to change it. The tag stays until
    /// [`Line::own`] or [`Line::leave`].
    pub(super) fn take_if(&self, slot: usize, word: Word) -> bool {
        let Some(tag) = self.tag(slot) else { return false };
        let stored = word.bits() ^ tag.0;
        // Acquire: what `own` writes next must not be seen before the word is gone.
        self.words[slot].compare_exchange(stored, NO_WORD, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Takes the word away, whatever it is.
    pub(super) fn take(&self, slot: usize) -> Option<Word> {
        let stored = self.words[slot].swap(NO_WORD, Ordering::AcqRel);
        self.tag(slot).filter(|_| stored != NO_WORD).map(|tag| Word::from_bits(stored ^ tag.0))
    }

    /// Gives a slot without a word to `tag`. True if the slot was empty before.
    pub(super) fn own(&self, slot: usize, Occupant { tag, word }: Occupant) -> bool {
        let was_empty = self.is_empty(slot);
        // Release, both: pair with the acquires in `find`, `change` and `read`.
        self.tags[slot].store(tag.0, Ordering::Release);
        self.words[slot].store(word.bits() ^ tag.0, Ordering::Release);
        was_empty
    }

    /// Frees a slot without a word. In a line that has no empty slot, others may have passed on to later lines, and
    /// a search for them must still pass: the slot is only gone. True if it is empty.
    pub(super) fn leave(&self, slot: usize) -> bool {
        let ends = self.has_empty();
        self.tags[slot].store(if ends { EMPTY } else { GONE }, Ordering::Relaxed);
        ends
    }

    /// Makes gone slots empty, where no search needs to pass any more. Says how many.
    pub(super) fn clear_gone(&self) -> usize {
        let gone = (0..SLOTS).filter(|&slot| self.is_gone(slot));
        gone.map(|slot| self.tags[slot].store(EMPTY, Ordering::Relaxed)).count()
    }
}
