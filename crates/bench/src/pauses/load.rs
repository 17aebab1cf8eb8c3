//! The loads: streams of new keys, and how time passes meanwhile.

use std::error::Error;

use tollgate_core::{Cost, Limit, Rate, Span, Time, TokenBucket};
use tollgate_store::{Charge, Ledger, LedgerSettings};

use super::record::Record;
use crate::keys::{KEY_BYTES, KeyStream};
use crate::timer::Stopwatch;
use crate::upkeep::{VirtualTime, while_tending_ledger};

/// A cap that no load reaches.
const CAP_AMPLE_BYTES: usize = 2 << 30;
/// Under a scarce cap, the table holds about a fifth of the keys: bytes per key of the whole load.
const CAP_SCARCE_BYTES_PER_KEY: usize = 5;
/// An ample table is sized for this many percent of the keys, so that it never comes near to being full.
const ROOM_PERCENT: usize = 130;
/// The made-up time between two questions.
const STEP_NS: u64 = 1_000;
/// Keys made at a time, outside the timed part.
const CHUNK: u64 = 1 << 16;
const START: Time = Time::from_ticks(1_700_000_000_000_000_000);

/// What makes the ledger work for its room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// From empty to all the keys.
    Growth,
    /// New keys at the cap, while old ones turn idle.
    Reclaim,
    /// New keys at the cap, while nobody turns idle.
    Evict,
}

/// Whether the ledger has to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// It has to.
    Scarce,
    /// It was sized for all that comes.
    Ample,
}

impl Load {
    /// All three.
    pub(super) const ALL: [Load; 3] = [Load::Growth, Load::Reclaim, Load::Evict];

    /// What the report calls it.
    pub(super) fn title(self) -> &'static str {
        match self {
            Load::Growth => "(a) The table grows from empty",
            Load::Reclaim => "(b) At its cap, idle keys are reclaimed for new ones",
            Load::Evict => "(c) At its cap, nothing is idle and the least used make room",
        }
    }

    fn settings(self, room: Room, keys: u64) -> Result<LedgerSettings, Box<dyn Error>> {
        let keys = usize::try_from(keys)?;
        let (cap_bytes, keys_expected) = match (room, self) {
            (Room::Ample, _) => (CAP_AMPLE_BYTES, keys * ROOM_PERCENT / 100),
            (Room::Scarce, Load::Growth) => (CAP_AMPLE_BYTES, 0),
            (Room::Scarce, Load::Reclaim | Load::Evict) => (keys * CAP_SCARCE_BYTES_PER_KEY, keys),
        };
        // What other parts of a ledger take of a cap comes on top.
        let with_cap = LedgerSettings::with_cap(cap_bytes / 97 * 100);
        Ok(LedgerSettings { wholes_bytes: 0, callers_percent: 1, keys_expected, ..with_cap })
    }

    /// A limit whose units come back while a tenth of the keys pass by, or not within the whole load. The control has
    /// nothing to reclaim.
    fn limit(self, room: Room, keys: u64) -> Result<Limit, Box<dyn Error>> {
        let unit_ns = match (room, self) {
            (Room::Scarce, Load::Reclaim) => keys / 10 * STEP_NS,
            _ => keys * 10 * STEP_NS,
        };
        let burst = 100;
        Ok(TokenBucket::new(Rate::new(1, Span::from_ticks(unit_ns))?, burst)?.into())
    }
}

/// Puts the load to a new ledger and times every decision.
pub(super) fn run(load: Load, room: Room, keys: u64) -> Result<Record, Box<dyn Error>> {
    let ledger = Ledger::new(load.settings(room, keys)?)?;
    let limit = load.limit(room, keys)?;
    let time = VirtualTime::default();
    time.set(START);
    let mut record = Record::new()?;
    while_tending_ledger(&ledger, &time, || {
        for first in (0..keys).step_by(CHUNK as usize) {
            let stream = KeyStream::of(first..keys.min(first + CHUNK));
            for (key, id) in stream.whole().bytes().zip(first..) {
                let now = START.plus(Span::from_ticks(id * STEP_NS));
                time.set(now);
                record.note(time_decision(&ledger, &limit, key, now));
            }
        }
    });
    record.note_stats(&ledger.stats());
    Ok(record)
}

#[inline]
fn time_decision(ledger: &Ledger, limit: &Limit, key: &[u8], now: Time) -> u64 {
    debug_assert_eq!(key.len(), KEY_BYTES);
    let stopwatch = Stopwatch::start();
    let decision = ledger.decide(&Charge::take(ledger.key(key), limit, Cost::ONE), now);
    let time_ns = stopwatch.elapsed_ns();
    std::hint::black_box(decision);
    time_ns
}
