//! What memory itself allows: the time of a cache miss, alone and with many under way.
//!
//! No table of this size can answer faster than its one cache miss, unless it has several under way at once: these
//! are the limits that the figures of the ledger stand beside. Huge pages make the difference between one miss
//! and two, the second being the page table's.

use std::error::Error;
use std::ffi::c_void;
use std::hint::black_box;

use rustix::mm::{Advice, madvise};

use super::rounds::median;
use crate::timer::Stopwatch;
use tollgate_load::Random;

/// About what our table takes for ten million keys.
const FOOTPRINT_BYTES: usize = 256 << 20;
/// How many independent accesses are under way at once.
const IN_FLIGHT: usize = 32;
const ROUNDS: usize = 5;
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// One cache line; its first word names the next one to visit.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Line {
    next: u32,
}

/// The figures for one kind of pages.
pub(super) struct RawMemory {
    /// Whether the memory was advised to use huge pages.
    pub(super) huge_pages: bool,
    /// Nanoseconds per access, each depending on the one before.
    pub(super) dependent_ns: f64,
    /// Nanoseconds per access with [`IN_FLIGHT`] independent ones under way.
    pub(super) independent_ns: f64,
}

/// Measures with huge pages and without, taking turns as the contenders do; medians are reported.
pub(super) fn measure(quick: bool) -> Result<[RawMemory; 2], Box<dyn Error>> {
    let steps = if quick { 1 << 20 } else { 1 << 22 };
    let huge = one_cycle(FOOTPRINT_BYTES / size_of::<Line>(), true)?;
    let small = one_cycle(FOOTPRINT_BYTES / size_of::<Line>(), false)?;
    let mut samples_ns: [[Vec<f64>; 2]; 2] = Default::default();
    for _ in 0..ROUNDS {
        for (lines, [dependent_ns, independent_ns]) in [&huge, &small].into_iter().zip(&mut samples_ns) {
            dependent_ns.push(chase(lines, steps));
            independent_ns.push(chase_many(lines, steps));
        }
    }
    let [huge, small] = samples_ns.map(|samples_ns| samples_ns.map(median));
    Ok([
        RawMemory { huge_pages: true, dependent_ns: huge[0], independent_ns: huge[1] },
        RawMemory { huge_pages: false, dependent_ns: small[0], independent_ns: small[1] },
    ])
}

/// Nanoseconds per access where each names the next.
fn chase(lines: &[Line], steps: usize) -> f64 {
    let stopwatch = Stopwatch::start();
    let mut at = 0;
    for _ in 0..steps {
        at = lines[at as usize].next;
    }
    black_box(at);
    stopwatch.elapsed_ns() as f64 / steps as f64
}

/// Nanoseconds per access on [`IN_FLIGHT`] independent ways.
fn chase_many(lines: &[Line], steps: usize) -> f64 {
    let mut random = Random::new(2);
    let mut at: [u32; IN_FLIGHT] = std::array::from_fn(|_| random.below(lines.len() as u64) as u32);
    let stopwatch = Stopwatch::start();
    for _ in 0..steps / IN_FLIGHT {
        for each in &mut at {
            *each = lines[*each as usize].next;
        }
    }
    black_box(at);
    stopwatch.elapsed_ns() as f64 / steps as f64
}

/// Lines of which each names the next, all in one random cycle (Sattolo's algorithm).
fn one_cycle(count: usize, huge_pages: bool) -> Result<Vec<Line>, Box<dyn Error>> {
    let mut lines: Vec<Line> = Vec::with_capacity(count);
    advise(&mut lines, huge_pages)?;
    lines.extend((0..count as u32).map(|next| Line { next }));
    let mut random = Random::new(1);
    for last in (1..count).rev() {
        let other = random.below(last as u64) as usize;
        let next = lines[last].next;
        lines[last].next = lines[other].next;
        lines[other].next = next;
    }
    Ok(lines)
}

/// Tells the kernel what pages to use for memory that nobody has touched yet.
fn advise(lines: &mut Vec<Line>, huge_pages: bool) -> Result<(), Box<dyn Error>> {
    let spare = lines.spare_capacity_mut().as_mut_ptr_range();
    let first = spare.start.addr().next_multiple_of(HUGE_PAGE_BYTES);
    let bytes = spare.end.addr().saturating_sub(first) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    let start = spare.start.with_addr(first).cast::<c_void>();
    let advice = if huge_pages { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage };
    #[allow(unsafe_code, reason = "the kernel is told about memory by its address")]
    // SAFETY: the range lies within the vector's own spare capacity, which is borrowed mutably here, and neither
    // advice changes what memory contains.
    unsafe {
        madvise(start, bytes, advice)?;
    }
    Ok(())
}
