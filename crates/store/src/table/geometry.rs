//! Where a key is at home, in a table that may be in the middle of growing.
//!
//! The home line of a tag is `tag * lines / 2^64`: lines lie in the order of their tags, whatever their number. So a table
//! grows in place: its last lines move to the end of the larger table first, and the rest follows from right to
//! left, a few lines at a time.
//!
//! ```text
//!   0                      split          lines                 lines grown
//!   |=======================|  - moved -   |                     |
//!   | at home as of `lines` |     empty        | at home as of the grown number |
//! ```
//!
//! Both numbers fit one word, so a single load tells every thread where any key is at home.

use super::line::Tag;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    /// The number of lines, or while growing: the number before.
    pub(super) lines: u32,
    /// Tags at home in this line or beyond have moved. Equal to `lines` when the table is at rest.
    pub(super) split: u32,
    /// The number of lines after growing.
    pub(super) grown: u32,
}

impl Geometry {
    pub(super) fn at_rest(lines: u32, lines_max: u32) -> Geometry {
        Geometry { lines, split: lines, grown: grown(lines, lines_max) }
    }

    pub(super) fn is_at_rest(self) -> bool {
        self.split == self.lines
    }

    pub(super) fn can_grow(self) -> bool {
        self.grown > self.lines
    }

    /// Lines in use, now or in a moment.
    pub(super) fn lines_in_use(self) -> u32 {
        if self.is_at_rest() { self.lines } else { self.grown }
    }

    #[inline]
    pub(super) fn home(self, tag: Tag) -> usize {
        let home = scale(tag, self.lines);
        if home < self.split as usize { home } else { scale(tag, self.grown) }
    }

    /// Where the tag is at home as long as it has not moved.
    pub(super) fn home_before(self, tag: Tag) -> usize {
        scale(tag, self.lines)
    }

    /// Where the tag is at home once it has moved.
    pub(super) fn home_after(self, tag: Tag) -> usize {
        scale(tag, self.grown)
    }

    /// The first line that a tag at home in line `home` can move to.
    pub(super) fn first_after(self, home: u32) -> usize {
        let line = u64::from(home) * u64::from(self.grown) / u64::from(self.lines);
        usize::try_from(line).unwrap_or(usize::MAX)
    }

    pub(super) fn pack(self) -> u64 {
        u64::from(self.lines) << 32 | u64::from(self.split)
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation)] // Cutting the word in two is the point.
    pub(super) fn unpack(packed: u64, lines_max: u32) -> Geometry {
        let (lines, split) = ((packed >> 32) as u32, packed as u32);
        Geometry { lines, split, grown: grown(lines, lines_max) }
    }
}

/// By a quarter: small enough that a table just grown is still two thirds full, large enough that a key moves only a
/// few times in its life.
#[inline]
fn grown(lines: u32, lines_max: u32) -> u32 {
    lines.saturating_add((lines / 4).max(1)).min(lines_max)
}

#[inline]
#[allow(clippy::cast_possible_truncation)] // Less than `lines`, which fits.
fn scale(tag: Tag, lines: u32) -> usize {
    ((u128::from(tag.number()) * u128::from(lines)) >> 64) as usize
}
