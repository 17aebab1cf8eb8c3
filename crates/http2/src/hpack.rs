//! Header blocks: fields that are spelled out, and fields that are named by their place in a table (RFC 7541).
//!
//! A client spells a field out once and names it from then on, so most of a block is one byte a field. What a block says depends
//! on all blocks before it. That is why every block has to be read, even that of a request which is refused, and why after an error
//! the connection is lost: from then on, the two ends disagree on what their table holds.

mod fields;
mod fixed;
mod huffman;
mod integer;
mod syntax;
mod table;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::fmt;

pub use fields::Fields;
use table::Table;

/// The size of a table that nobody has spoken about.
const TABLE_BYTES_DEFAULT: usize = 4096;
/// Room for a literal that is kept from block to block. What a longer one took is given back.
const LITERAL_BYTES_KEPT: usize = 4096;

/// The bit before a string which says that it is in Huffman's code.
const HUFFMAN_BIT: u8 = 0x80;

/// Why a header block cannot be read. None of these can be mended: the connection has to end with `COMPRESSION_ERROR`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HpackError {
    /// The block ends within a field.
    Truncated,
    /// A number does not fit 32 bits, or is written with more bytes than it takes.
    Number,
    /// No field has this place in the table.
    Index,
    /// A string is not in Huffman's code: it holds the end of all strings, or is padded wrongly.
    Huffman,
    /// The table is to be larger than it may be.
    TableSize,
    /// The table is to change its size within a block.
    TableSizeLate,
    /// The fields are so much too long that reading on would be work for nothing.
    TooLong,
}

impl fmt::Display for HpackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HpackError::Truncated => "the header block ends within a field",
            HpackError::Number => "a number in the header block is too large",
            HpackError::Index => "the header block names a field that is not in the table",
            HpackError::Huffman => "a string in the header block is not in Huffman's code",
            HpackError::TableSize => "the table of header fields is to be larger than it may be",
            HpackError::TooLong => "the header block names far more than there is room for",
            HpackError::TableSizeLate => "the table of header fields is to change its size within a block",
        })
    }
}

impl Error for HpackError {}

/// A field: its name and its value side by side, so that one copy takes both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field<'a> {
    text: &'a [u8],
    name_bytes: usize,
    /// Whether HTTP allows its name and value. Found out once, when the field is spelled out, and then kept in the table.
    is_valid: bool,
}

impl<'a> Field<'a> {
    /// A field that a client has spelled out.
    fn new(text: &'a [u8], name_bytes: usize) -> Field<'a> {
        let (name, value) = text.split_at_checked(name_bytes).unwrap_or((text, &[]));
        Field { text, name_bytes, is_valid: syntax::is_name(name) && syntax::is_value(value) }
    }

    fn name(&self) -> &'a [u8] {
        self.text.get(..self.name_bytes).unwrap_or_default()
    }

    /// How much of a table or of a list a field takes: more than its text, to account for what is kept besides.
    #[inline]
    fn size(&self) -> usize {
        self.text.len().saturating_add(FIELD_BYTES)
    }
}

/// What a field takes besides its text.
const FIELD_BYTES: usize = 32;

/// Reads the header blocks of one connection, in the order in which they were sent.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
    /// The literal that is being read: its name and its value.
    literal: Vec<u8>,
}

impl Decoder {
    /// A decoder whose table takes so many bytes at most, as RFC 7541 counts them. The peer has to be told if that is not 4096. If it is
    /// less, a peer that sends requests before it was told may name fields that are not kept, and so lose its connection.
    pub fn new(table_bytes_max: usize) -> Decoder {
        Decoder { table: Table::new(table_bytes_max, TABLE_BYTES_DEFAULT), literal: Vec::new() }
    }

    /// Reads one whole header block. `fields` is emptied first. The table is kept right even if the fields are too many to be kept,
    /// unless they are far too many.
    /// After an error no other block of the connection can be read.
    pub fn decode(&mut self, block: &[u8], fields: &mut Fields) -> Result<(), HpackError> {
        fields.clear();
        let mut rest = self.resize(block)?;
        while let Some((&first, after)) = rest.split_first() {
            if fields.is_far_too_long() {
                return Err(HpackError::TooLong);
            }
            rest = after;
            match first {
                0x80.. => {
                    let index = integer::read(first, 7, &mut rest)?;
                    fields.push(find(&self.table, index)?);
                }
                0x40.. => {
                    let field = self.read_literal(first, 6, &mut rest)?;
                    fields.push(field);
                    let Field { name_bytes, is_valid, .. } = field;
                    self.table.insert(Field { text: &self.literal, name_bytes, is_valid });
                }
                0x20.. => return Err(HpackError::TableSizeLate),
                // Never to be put in any table, or not in this one: that is for those who pass fields on.
                _ => fields.push(self.read_literal(first, 4, &mut rest)?),
            }
        }
        if self.literal.capacity() > LITERAL_BYTES_KEPT {
            self.literal.clear();
            self.literal.shrink_to(LITERAL_BYTES_KEPT);
        }
        Ok(())
    }

    /// Follows changes of the table's size, which stand before the fields. Returns what comes after.
    fn resize<'a>(&mut self, block: &'a [u8]) -> Result<&'a [u8], HpackError> {
        let mut rest = block;
        while let Some((&first @ 0x20..0x40, after)) = rest.split_first() {
            rest = after;
            self.table.resize(integer::read(first, 5, &mut rest)?)?;
        }
        Ok(rest)
    }

    /// A field whose value is spelled out, and whose name is as well or is that of a field in the table.
    fn read_literal(
        &mut self,
        first: u8,
        prefix_bits: u32,
        rest: &mut &[u8],
    ) -> Result<Field<'_>, HpackError> {
        self.literal.clear();
        match integer::read(first, prefix_bits, rest)? {
            0 => read_string(rest, &mut self.literal)?,
            index => self.literal.extend_from_slice(find(&self.table, index)?.name()),
        }
        let name_bytes = self.literal.len();
        read_string(rest, &mut self.literal)?;
        Ok(Field::new(&self.literal, name_bytes))
    }
}

/// The field at a place: first those that everybody knows, then those that were sent, the newest first.
#[inline]
fn find(table: &Table, index: usize) -> Result<Field<'_>, HpackError> {
    let index = index.checked_sub(1).ok_or(HpackError::Index)?;
    match fixed::FIELDS.get(index) {
        Some(&field) => Ok(field),
        None => table.get(index - fixed::FIELDS.len()).ok_or(HpackError::Index),
    }
}

/// Appends the string at the start of `rest`.
#[inline]
fn read_string(rest: &mut &[u8], out: &mut Vec<u8>) -> Result<(), HpackError> {
    let (&first, after) = rest.split_first().ok_or(HpackError::Truncated)?;
    *rest = after;
    let length = integer::read(first, 7, rest)?;
    let (string, after) = rest.split_at_checked(length).ok_or(HpackError::Truncated)?;
    *rest = after;
    if first & HUFFMAN_BIT == 0 {
        out.extend_from_slice(string);
        Ok(())
    } else {
        huffman::decode(string, out)
    }
}

/// Writes a field so that the reader's table is not touched: a literal that is not to be indexed, and not in Huffman's code.
pub fn put_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.push(0);
    for string in [name, value] {
        integer::put(out, 0, 7, string.len());
        out.extend_from_slice(string);
    }
}
