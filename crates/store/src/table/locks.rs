//! Locks for those who change which key owns a slot: one for every block of lines.
//!
//! Decisions on known keys take none. Whoever needs several blocks waits only for the first and lets everything go if
//! another is taken: nobody waits while holding, so nothing can deadlock.

use crate::sync::Lock;

pub(super) const LINES_PER_BLOCK: usize = 128;
const BLOCKS_HELD_MAX: usize = 16;

pub(super) struct Locks {
    blocks: Box<[Lock]>,
}

/// The blocks a thread holds, until it is dropped.
pub(super) struct Held<'a> {
    locks: &'a Locks,
    blocks: [usize; BLOCKS_HELD_MAX],
    count: usize,
}

impl Locks {
    pub(super) fn for_lines(lines: usize) -> Locks {
        let blocks = lines.div_ceil(LINES_PER_BLOCK);
        Locks { blocks: (0..blocks).map(|_| Lock::default()).collect() }
    }

    /// Holds the block of `line`, as soon as it is free.
    pub(super) fn hold(&self, line: usize) -> Held<'_> {
        let block = line / LINES_PER_BLOCK;
        self.blocks[block].take();
        let mut held = Held { locks: self, blocks: [0; BLOCKS_HELD_MAX], count: 1 };
        held.blocks[0] = block;
        held
    }
}

impl Held<'_> {
    /// Holds the block of `line` as well, if it is free or held already.
    pub(super) fn and(&mut self, line: usize) -> bool {
        let block = line / LINES_PER_BLOCK;
        if self.blocks[..self.count].contains(&block) {
            return true;
        }
        if self.count == BLOCKS_HELD_MAX || !self.locks.blocks[block].try_take() {
            return false;
        }
        self.blocks[self.count] = block;
        self.count += 1;
        true
    }

    /// Holds all blocks from that of `first` to that of `last`.
    pub(super) fn and_all(&mut self, first: usize, last: usize) -> bool {
        (first / LINES_PER_BLOCK..=last / LINES_PER_BLOCK).all(|block| self.and(block * LINES_PER_BLOCK))
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        for &block in &self.blocks[..self.count] {
            self.locks.blocks[block].free();
        }
    }
}
