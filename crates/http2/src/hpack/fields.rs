//! The fields of a header block, side by side in one buffer that the next block uses again.

#[cfg(test)]
mod tests;

use super::Field;

/// Room that is kept from block to block. What a longer one took is given back.
const TEXT_BYTES_KEPT: usize = 4096;
const FIELDS_KEPT: usize = 128;

/// So many times what there is room for is not read any more: two bytes of a block can name thousands.
const FAR_TOO_LONG: usize = 4;

/// All fields of one header block, in the order in which they were sent.
#[derive(Debug)]
pub struct Fields {
    text: Vec<u8>,
    lengths: Vec<Lengths>,
    /// What the fields take that were sent, those among them that are not kept.
    bytes: usize,
    bytes_max: usize,
    has_invalid: bool,
}

#[derive(Clone, Copy, Debug)]
struct Lengths {
    name: usize,
    value: usize,
}

impl Fields {
    /// Room for fields that take `bytes_max`, counted as `SETTINGS_MAX_HEADER_LIST_SIZE` is: name, value and 32 for each.
    pub fn new(bytes_max: usize) -> Fields {
        Fields { text: Vec::new(), lengths: Vec::new(), bytes: 0, bytes_max, has_invalid: false }
    }

    /// Whether more were sent than there is room for. The first that was too much is not kept, nor is any after it.
    pub fn is_too_long(&self) -> bool {
        self.bytes > self.bytes_max
    }

    /// Whether a field has a name or a value that HTTP forbids: whoever sent it has sent a malformed request (RFC 9113, 8.2.1). Fields
    /// that are not kept count too.
    pub fn has_invalid(&self) -> bool {
        self.has_invalid
    }

    /// Gives back the memory that a long block took. Its fields are gone then; short blocks stay.
    pub fn shrink(&mut self) {
        if self.text.capacity() > TEXT_BYTES_KEPT || self.lengths.capacity() > FIELDS_KEPT {
            self.clear();
        }
    }

    /// Whether so much more was sent that nobody does it by accident.
    #[inline]
    pub(super) fn is_far_too_long(&self) -> bool {
        self.bytes > self.bytes_max.saturating_mul(FAR_TOO_LONG)
    }

    /// Names and values, in the order in which they were sent.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = self.text.as_slice();
        self.lengths.iter().map_while(move |lengths| {
            let (name, after) = rest.split_at_checked(lengths.name)?;
            let (value, after) = after.split_at_checked(lengths.value)?;
            rest = after;
            Some((name, value))
        })
    }

    /// How many fields are kept.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Whether no field is kept.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    #[inline]
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.text.shrink_to(TEXT_BYTES_KEPT);
        self.lengths.clear();
        self.lengths.shrink_to(FIELDS_KEPT);
        self.bytes = 0;
        self.has_invalid = false;
    }

    #[inline]
    pub(super) fn push(&mut self, field: Field<'_>) {
        self.bytes = self.bytes.saturating_add(field.size());
        self.has_invalid |= !field.is_valid;
        if self.is_too_long() {
            return;
        }
        let name = field.name_bytes;
        self.text.extend_from_slice(field.text);
        self.lengths.push(Lengths { name, value: field.text.len().saturating_sub(name) });
    }
}
