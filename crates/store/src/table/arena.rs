//! The memory of the table: all the lines it may ever have, as one range of addresses.
//!
//! The range is reserved once, and the system provides memory behind it only where it is touched, so a small table is
//! small. Nothing is ever moved to another allocation, so no thread can hold a pointer to freed memory, and
//! growing needs no second table. Huge pages are asked for: with small ones, a random access over some hundred
//! megabytes pays a page walk on top of its cache miss.

use super::line::Line;
use crate::ledger::LedgerError;

#[cfg(not(loom))]
pub(super) use mapped::Arena;
#[cfg(not(loom))]
pub use mapped::prefetch;
#[cfg(loom)]
pub(super) use modelled::Arena;
#[cfg(loom)]
pub use modelled::prefetch;

/// What the processor fetches at once.
#[cfg(not(loom))]
const CACHE_LINE_BYTES: usize = 64;
/// What one page of memory holds when it is a huge one.
#[cfg(not(loom))]
const HUGE_PAGE_BYTES: usize = 2 << 20;

#[cfg(not(loom))]
mod mapped {
    #![allow(unsafe_code)] // The one place where memory comes from the system.

    use std::ptr::{self, NonNull};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use rustix::mm::{self, Advice, MapFlags, ProtFlags};

    use super::{CACHE_LINE_BYTES, HUGE_PAGE_BYTES, LedgerError, Line};

    /// Has the processor fetch the memory of a value that is about to be read, and does not wait for it.
    #[inline]
    pub fn prefetch<T>(value: &T) {
        let start = ptr::from_ref(value).cast::<i8>();
        for offset in (0..size_of::<T>()).step_by(CACHE_LINE_BYTES) {
            fetch(start.wrapping_add(offset));
        }
        // It may begin anywhere in its first line.
        fetch(start.wrapping_add(size_of::<T>().saturating_sub(1)));
    }

    #[inline]
    fn fetch(address: *const i8) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: a prefetch is a hint: it reads nothing and cannot fault.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = address;
    }

    pub(in crate::table) struct Arena {
        mapping: NonNull<u8>,
        mapping_bytes: usize,
        lines: NonNull<Line>,
        lines_max: usize,
        /// The system has provided memory for this many bytes from the start.
        provided_bytes: AtomicUsize,
    }

    // SAFETY: the mapping belongs to the arena alone until it is dropped, and lines are made of atomics.
    unsafe impl Send for Arena {}
    // SAFETY: as above: every access through `&Arena` is to atomics.
    unsafe impl Sync for Arena {}

    impl Arena {
        pub(in crate::table) fn reserve(lines_max: usize) -> Result<Arena, LedgerError> {
            let refuse =
                |source| LedgerError::Memory { bytes: lines_max.saturating_mul(size_of::<Line>()), source };
            let overflow = || refuse(rustix::io::Errno::NOMEM.into());
            let mapping_bytes = lines_max
                .checked_mul(size_of::<Line>())
                .and_then(|bytes| bytes.checked_add(2 * HUGE_PAGE_BYTES))
                .ok_or_else(overflow)?;
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
            // SAFETY: a new anonymous mapping at an address of the system's choice touches nothing that exists.
            let mapping = unsafe {
                mm::mmap_anonymous(ptr::null_mut(), mapping_bytes, ProtFlags::READ | ProtFlags::WRITE, flags)
            }
            .map_err(|errno| refuse(errno.into()))?;
            let mapping = NonNull::new(mapping.cast::<u8>()).ok_or_else(overflow)?;
            let to_boundary = mapping.align_offset(HUGE_PAGE_BYTES);
            // SAFETY: the boundary lies within the first huge page of the mapping, which has two to spare.
            let lines = unsafe { mapping.add(to_boundary) }.cast::<Line>();
            let arena =
                Arena { mapping, mapping_bytes, lines, lines_max, provided_bytes: AtomicUsize::new(0) };
            arena.advise(0, lines_max * size_of::<Line>(), Advice::LinuxHugepage);
            Ok(arena)
        }

        #[inline]
        pub(in crate::table) fn line(&self, index: usize) -> &Line {
            assert!(index < self.lines_max);
            // SAFETY: the index is within the mapping, which lives as long as the arena and is aligned to lines;
            // anonymous memory starts as zeros, which is a valid line of empty slots.
            unsafe { self.lines.add(index).as_ref() }
        }

        /// Fetches the line towards the cache without waiting for it.
        #[inline]
        pub(in crate::table) fn prefetch(&self, index: usize) {
            fetch(self.lines.as_ptr().wrapping_add(index).cast());
        }

        /// Lets the system provide memory for the first `lines` lines now, so that no decision waits for it later.
        /// Returns at once where it already has.
        pub(in crate::table) fn provide(&self, lines: usize) {
            let wanted = (lines.min(self.lines_max) * size_of::<Line>()).next_multiple_of(HUGE_PAGE_BYTES);
            // Relaxed: a hint to itself. Two threads that provide the same pages do no harm.
            let provided = self.provided_bytes.load(Ordering::Relaxed);
            if wanted > provided {
                self.advise(provided, wanted - provided, Advice::LinuxPopulateWrite);
                self.provided_bytes.fetch_max(wanted, Ordering::Relaxed);
            }
        }

        /// Advice may be refused (an old kernel, huge pages switched off): then memory comes as it is touched.
        fn advise(&self, offset: usize, bytes: usize, advice: Advice) {
            let start = self.lines.as_ptr().cast::<u8>().wrapping_add(offset);
            // SAFETY: both kinds of advice used here keep what the range contains, and the range lies within the
            // mapping, which has a spare huge page behind its last line.
            let _ = unsafe { mm::madvise(start.cast(), bytes, advice) };
        }
    }

    impl Drop for Arena {
        fn drop(&mut self) {
            // SAFETY: the mapping is the arena's own, whole, and nothing borrows from it any more.
            let _ = unsafe { mm::munmap(self.mapping.as_ptr().cast(), self.mapping_bytes) };
        }
    }
}

#[cfg(loom)]
mod modelled {
    use super::{LedgerError, Line};

    /// Nothing is fetched in a model.
    pub fn prefetch<T>(_value: &T) {}

    pub(in crate::table) struct Arena {
        lines: Box<[Line]>,
    }

    impl Arena {
        pub(in crate::table) fn reserve(lines_max: usize) -> Result<Arena, LedgerError> {
            Ok(Arena { lines: (0..lines_max).map(|_| Line::new()).collect() })
        }

        pub(in crate::table) fn line(&self, index: usize) -> &Line {
            &self.lines[index]
        }

        pub(in crate::table) fn prefetch(&self, _index: usize) {}

        pub(in crate::table) fn provide(&self, _lines: usize) {}
    }
}
