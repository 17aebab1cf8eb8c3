//! A decoder that copies everything, moves everything and reads bit by bit.

use super::super::huffman::tests::decode_naively;
use super::*;

type Text = Vec<u8>;

/// The newest field first, after all that are fixed.
pub(super) struct Oracle {
    sent: Vec<(Text, Text)>,
    bytes: usize,
    bytes_max: usize,
}

impl Oracle {
    pub(super) fn new(bytes_max: usize) -> Oracle {
        Oracle { sent: Vec::new(), bytes: bytes_max.min(4096), bytes_max }
    }

    pub(super) fn sent_count(&self) -> usize {
        self.sent.len()
    }

    /// The fields of a block.
    pub(super) fn decode(&mut self, block: &[u8]) -> Result<Vec<(Text, Text)>, HpackError> {
        let mut block = block.to_vec();
        let mut fields = Vec::new();
        while !block.is_empty() {
            let first = format!("{:08b}", block[0]);
            if first.starts_with('1') {
                let index = take_number(&mut block, 7)?;
                fields.push(self.get(index)?);
            } else if first.starts_with("01") {
                let field = self.take_literal(&mut block, 6)?;
                fields.push(field.clone());
                self.sent.insert(0, field);
                self.cut();
            } else if first.starts_with("001") {
                if !fields.is_empty() {
                    return Err(HpackError::TableSizeLate);
                }
                let bytes = take_number(&mut block, 5)?;
                if bytes > self.bytes_max {
                    return Err(HpackError::TableSize);
                }
                self.bytes = bytes;
                self.cut();
            } else {
                fields.push(self.take_literal(&mut block, 4)?);
            }
        }
        Ok(fields)
    }

    fn cut(&mut self) {
        while self.sent.iter().map(|(name, value)| name.len() + value.len() + 32).sum::<usize>() > self.bytes
        {
            self.sent.pop();
        }
    }

    fn get(&self, index: usize) -> Result<(Text, Text), HpackError> {
        let fixed = fixed::FIELDS.iter().map(|field| {
            let (name, value) = field.text.split_at(field.name_bytes);
            (name.to_vec(), value.to_vec())
        });
        let all: Vec<_> = fixed.chain(self.sent.iter().cloned()).collect();
        if index == 0 { Err(HpackError::Index) } else { all.get(index - 1).cloned().ok_or(HpackError::Index) }
    }

    fn take_literal(&self, block: &mut Vec<u8>, prefix_bits: usize) -> Result<(Text, Text), HpackError> {
        let name = match take_number(block, prefix_bits)? {
            0 => take_string(block)?,
            index => self.get(index)?.0,
        };
        Ok((name, take_string(block)?))
    }
}

fn take_string(block: &mut Vec<u8>) -> Result<Text, HpackError> {
    let is_coded = *block.first().ok_or(HpackError::Truncated)? >= 0x80;
    let length = take_number(block, 7)?;
    if length > block.len() {
        return Err(HpackError::Truncated);
    }
    let string: Vec<_> = block.drain(..length).collect();
    if is_coded { decode_naively(&string) } else { Ok(string) }
}

/// As it stands in RFC 7541, 5.1.
fn take_number(block: &mut Vec<u8>, prefix_bits: usize) -> Result<usize, HpackError> {
    let prefix_max = 2_usize.pow(u32::try_from(prefix_bits).unwrap()) - 1;
    let mut number = usize::from(block.remove(0)) & prefix_max;
    if number < prefix_max {
        return Ok(number);
    }
    for exponent in [0, 7, 14, 21, 28] {
        if block.is_empty() {
            return Err(HpackError::Truncated);
        }
        let byte = usize::from(block.remove(0));
        number += (byte % 128) * 2_usize.pow(exponent);
        if byte < 128 {
            return if number < 1 << 32 { Ok(number) } else { Err(HpackError::Number) };
        }
    }
    Err(HpackError::Number)
}
