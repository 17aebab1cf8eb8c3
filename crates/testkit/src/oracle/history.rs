//! Everything that was ever counted, and when.

/// What was counted, the oldest first.
#[derive(Debug, Default)]
pub(super) struct History {
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    /// When it was counted, or which window it was counted in.
    at: u128,
    units: u128,
}

impl History {
    pub(super) fn add(&mut self, units: u128, at: u128) {
        if units > 0 {
            self.entries.push(Entry { at, units });
        }
    }

    /// The units counted at moments that `belong`.
    pub(super) fn units(&self, belongs: impl Fn(u128) -> bool) -> u128 {
        self.entries.iter().filter(|entry| belongs(entry.at)).map(|entry| entry.units).sum()
    }

    /// The last moment that `belongs` and at which anything was counted.
    pub(super) fn last(&self, belongs: impl Fn(u128) -> bool) -> Option<u128> {
        self.entries.iter().rev().map(|entry| entry.at).find(|&at| belongs(at))
    }

    /// Forgets the newest `units` of those whose moment `belongs`, or all of them.
    pub(super) fn forget(&mut self, mut units: u128, belongs: impl Fn(u128) -> bool) {
        for entry in self.entries.iter_mut().rev().filter(|entry| belongs(entry.at)) {
            let forgotten = entry.units.min(units);
            entry.units -= forgotten;
            units -= forgotten;
        }
        self.entries.retain(|entry| entry.units > 0);
    }
}
