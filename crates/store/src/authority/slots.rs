//! Which shard of a Redis Cluster keeps a key.
//!
//! A cluster divides all keys among 16,384 slots by a checksum of the key, or of its hash tag: what stands between the first `{` and the
//! next `}`, where that is not empty. Shards own slots, and slots move between them: the map is learnt as a whole, and
//! corrected by one `MOVED` at a time.

#[cfg(test)]
mod tests;

use std::ops::RangeInclusive;

use thiserror::Error;

/// How many slots there are.
pub const SLOTS: u16 = 16_384;
/// The most shards of one cluster: one per slot.
pub const SHARDS_MAX: usize = SLOTS as usize;

const NO_SHARD: u16 = u16::MAX;

/// The slot of a key.
pub fn slot_of(key: &[u8]) -> u16 {
    crc16(hash_tag(key).unwrap_or(key)) % SLOTS
}

fn hash_tag(key: &[u8]) -> Option<&[u8]> {
    let opens = key.iter().position(|&byte| byte == b'{')?;
    let tag = &key[opens + 1..];
    let closes = tag.iter().position(|&byte| byte == b'}')?;
    (closes > 0).then(|| &tag[..closes])
}

/// CRC-16/XMODEM: polynomial 0x1021, from 0, not reflected.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| (crc << 8) ^ CRC_TABLE[usize::from(crc.to_be_bytes()[0] ^ byte)])
}

static CRC_TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte: u16 = 0;
    while byte < 256 {
        let mut crc = byte << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc << 1) ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 };
            bit += 1;
        }
        table[byte as usize] = crc;
        byte += 1;
    }
    table
};

/// Which shard owns which slot, shards being numbers that the caller gives.
#[derive(Clone, Debug)]
pub struct SlotMap {
    shards: Box<[u16]>,
}

/// What a cluster told and cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SlotError {
    /// A slot beyond the last.
    #[error("there is no slot {slot}; the last is {}", SLOTS - 1)]
    NoSuchSlot {
        /// The slot.
        slot: u16,
    },
    /// A shard beyond [`SHARDS_MAX`].
    #[error("a cluster may have at most {SHARDS_MAX} shards")]
    TooManyShards,
}

impl SlotMap {
    /// The map in which each range of slots belongs to the shard beside it. Where ranges overlap, the last one holds.
    pub fn new(ranges: impl IntoIterator<Item = (RangeInclusive<u16>, usize)>) -> Result<SlotMap, SlotError> {
        let mut map = SlotMap { shards: vec![NO_SHARD; usize::from(SLOTS)].into_boxed_slice() };
        for (range, shard) in ranges {
            if *range.end() >= SLOTS {
                return Err(SlotError::NoSuchSlot { slot: *range.end() });
            }
            for slot in range {
                map.set(slot, shard)?;
            }
        }
        Ok(map)
    }

    /// The shard that owns a slot, if any does.
    pub fn shard_of(&self, slot: u16) -> Option<usize> {
        let shard = *self.shards.get(usize::from(slot))?;
        (shard != NO_SHARD).then_some(usize::from(shard))
    }

    /// A slot belongs to another shard now, says a `MOVED`.
    pub fn set(&mut self, slot: u16, shard: usize) -> Result<(), SlotError> {
        let shard = u16::try_from(shard).ok().filter(|&shard| usize::from(shard) < SHARDS_MAX);
        let shard = shard.ok_or(SlotError::TooManyShards)?;
        let owner = self.shards.get_mut(usize::from(slot)).ok_or(SlotError::NoSuchSlot { slot })?;
        *owner = shard;
        Ok(())
    }
}
