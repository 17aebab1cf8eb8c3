//! Which keys are hot: those that take more than their part of a shard, until they take much less.

use std::collections::BTreeSet;

/// A key that has become hot stays so while it has this part of what made it so: one that is about there must not come and go.
const STAYS_PART: f64 = 0.5;
/// The most keys that are hot at a time.
const HOT_MAX: usize = 256;

/// What makes a key hot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SwitchSettings {
    /// The part of the decisions of its shard. With none, no key ever is.
    pub share: f64,
    /// Decisions a second, below which there is nothing to be saved.
    pub per_second_min: f64,
}

impl Default for SwitchSettings {
    fn default() -> SwitchSettings {
        SwitchSettings { share: 0.05, per_second_min: 50.0 }
    }
}

/// How hot a key is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Heat {
    /// Which key.
    pub number: u64,
    /// Its decisions a second.
    pub per_second: f64,
    /// Its part of the decisions of its shard.
    pub share: f64,
}

/// Knows which keys are hot.
#[derive(Debug, Default)]
pub struct Switch {
    settings: SwitchSettings,
    hot: BTreeSet<u64>,
}

impl Switch {
    /// None is.
    pub fn new(settings: SwitchSettings) -> Switch {
        Switch { settings, hot: BTreeSet::new() }
    }

    /// The keys that are hot.
    pub fn hot(&self) -> &BTreeSet<u64> {
        &self.hot
    }

    /// Looks at all keys again. Calls with each that has become hot, and with each that has ceased to be.
    pub fn look(&mut self, keys: impl Iterator<Item = Heat>, mut changed: impl FnMut(u64, bool)) {
        let SwitchSettings { share, per_second_min } = self.settings;
        let has = |heat: &Heat, part: f64| {
            share > 0.0 && heat.share >= share * part && heat.per_second >= per_second_min * part
        };
        let (mut hot, mut rising) = (BTreeSet::new(), Vec::new());
        for heat in keys {
            if self.hot.contains(&heat.number) && has(&heat, STAYS_PART) {
                hot.insert(heat.number);
            } else if !self.hot.contains(&heat.number) && has(&heat, 1.0) {
                rising.push(heat);
            }
        }
        rising.sort_unstable_by(|one, other| other.per_second.total_cmp(&one.per_second));
        rising.truncate(HOT_MAX.saturating_sub(hot.len()));
        self.hot.difference(&hot).for_each(|&number| changed(number, false));
        for heat in rising {
            hot.insert(heat.number);
            changed(heat.number, true);
        }
        self.hot = hot;
    }
}
