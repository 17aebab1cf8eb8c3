//! A list that grows while others read it, and whose items never move: references to them live as long as the list.

use std::sync::OnceLock;

/// Chunks besides the first.
const CHUNKS: usize = 8;
/// The smallest of them has two to the power of this many items.
const CHUNK_BITS_MIN: u32 = 6;

/// A list of items that were put into it, each once, by number.
pub(super) struct Arena<T> {
    /// As many as there were when it was made.
    first: Box<[OnceLock<T>]>,
    /// Those that came later.
    chunks: [OnceLock<Box<[OnceLock<T>]>>; CHUNKS],
    chunk_bits: u32,
}

impl<T> Arena<T> {
    /// Room for so many items, and as many again.
    pub(super) fn with_room(items: usize) -> Arena<T> {
        let chunk = (items / CHUNKS).next_power_of_two();
        let chunk_bits = chunk.trailing_zeros().max(CHUNK_BITS_MIN);
        Arena { first: room(items), chunks: std::array::from_fn(|_| OnceLock::new()), chunk_bits }
    }

    /// How many items there is room for.
    pub(super) fn room(&self) -> usize {
        self.first.len() + (CHUNKS << self.chunk_bits)
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<&T> {
        self.slot(at)?.get()
    }

    /// Where an item is or will be. That is not looked at yet.
    #[inline]
    pub(super) fn slot(&self, at: usize) -> Option<&OnceLock<T>> {
        let Some(later) = at.checked_sub(self.first.len()) else { return Some(&self.first[at]) };
        let chunk = self.chunks.get(later >> self.chunk_bits)?.get()?;
        Some(&chunk[later & ((1 << self.chunk_bits) - 1)])
    }

    /// Puts an item where there is none yet. False if there is no room.
    pub(super) fn put(&self, at: usize, item: T) -> bool {
        let slot = match at.checked_sub(self.first.len()) {
            None => &self.first[at],
            Some(later) => {
                let Some(chunk) = self.chunks.get(later >> self.chunk_bits) else { return false };
                &chunk.get_or_init(|| room(1 << self.chunk_bits))[later & ((1 << self.chunk_bits) - 1)]
            }
        };
        slot.set(item).is_ok()
    }
}

fn room<T>(items: usize) -> Box<[OnceLock<T>]> {
    (0..items).map(|_| OnceLock::new()).collect()
}

#[cfg(test)]
mod tests {
    use super::Arena;

    #[test]
    fn has_as_much_room_as_it_says() {
        for items in [0, 1, 7, 64, 1_000] {
            let arena = Arena::with_room(items);
            assert!(arena.room() >= 2 * items);
            assert!((0..arena.room()).all(|at| arena.get(at).is_none() && arena.put(at, at)));
            assert!((0..arena.room()).all(|at| arena.get(at) == Some(&at)));
            assert!(!arena.put(arena.room(), 0) && !arena.put(0, 0));
            assert_eq!(arena.get(arena.room()), None);
        }
    }
}
