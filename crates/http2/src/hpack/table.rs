//! The table of fields that were sent, as both ends of a connection keep it: the newest first, and the oldest gone when there is no room.
//!
//! The fields' texts stand in one buffer, in the order in which they came. The oldest leave a gap at its start, which is closed
//! only when it is as large as the table may be: so a text is moved once at most for every table's worth of texts that came after it, and
//! no text is ever in two pieces.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use super::{Field, HpackError};

#[derive(Debug)]
pub(super) struct Table {
    /// The newest first, as they are counted.
    places: VecDeque<Place>,
    text: Vec<u8>,
    /// What the fields take, as RFC 7541 counts it.
    bytes: usize,
    /// What they may take now: the peer decides, up to `bytes_max`.
    bytes_now: usize,
    bytes_max: usize,
}

/// Where a field is in the text.
#[derive(Clone, Copy, Debug)]
struct Place {
    start: usize,
    name_bytes: usize,
    end: usize,
    /// See [`Field::is_valid`].
    is_valid: bool,
}

impl Table {
    /// A table of `bytes_max` at most, and of no more than `bytes_first` until the peer says so.
    pub(super) fn new(bytes_max: usize, bytes_first: usize) -> Table {
        let bytes_now = bytes_first.min(bytes_max);
        Table { places: VecDeque::new(), text: Vec::new(), bytes: 0, bytes_now, bytes_max }
    }

    /// The field that came so many fields before the newest.
    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<Field<'_>> {
        let place = self.places.get(index)?;
        let text = self.text.get(place.start..place.end)?;
        Some(Field { text, name_bytes: place.name_bytes, is_valid: place.is_valid })
    }

    /// What the fields take, as RFC 7541 counts it.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Puts a field first, after as many old ones have gone as it takes. If it alone is too large all have gone, and it is not put in.
    pub(super) fn insert(&mut self, field: Field<'_>) {
        let size = field.size();
        self.evict(self.bytes_now.saturating_sub(size));
        if size > self.bytes_now {
            return;
        }
        self.close_gap();
        let start = self.text.len();
        self.text.extend_from_slice(field.text);
        let Field { name_bytes, is_valid, .. } = field;
        self.places.push_front(Place { start, name_bytes, end: self.text.len(), is_valid });
        self.bytes += size;
    }

    /// Changes how large the table may be.
    pub(super) fn resize(&mut self, bytes: usize) -> Result<(), HpackError> {
        if bytes > self.bytes_max {
            return Err(HpackError::TableSize);
        }
        self.bytes_now = bytes;
        self.evict(bytes);
        Ok(())
    }

    /// Takes the oldest fields out until the others take no more than so many bytes.
    fn evict(&mut self, bytes: usize) {
        while self.bytes > bytes
            && let Some(oldest) = self.places.len().checked_sub(1).and_then(|index| self.get(index))
        {
            self.bytes = self.bytes.saturating_sub(oldest.size());
            self.places.pop_back();
        }
    }

    fn close_gap(&mut self) {
        let gap_bytes = self.places.back().map_or(self.text.len(), |oldest| oldest.start);
        if gap_bytes > self.bytes_max || self.places.is_empty() {
            self.text.drain(..gap_bytes);
            for place in &mut self.places {
                place.start -= gap_bytes;
                place.end -= gap_bytes;
            }
        }
    }
}
