//! A limit for keys of which nothing can be remembered one by one.
//!
//! A store whose memory is full of keys that are at their limits has no place for the state of a new key. It lets many new keys
//! share one state instead. That counts too much for each of them, so it admits too few and never too many. Such a shared
//! state has to be small, whatever the limit, so a limit whose states do not fit a word is stood in for by a token bucket
//! that admits no more.

use crate::algorithm::token_bucket::TokenBucket;
use crate::limit::{Limit, State};
use crate::rate::Rate;
use crate::time::{Span, Time};
use crate::word::Packed as _;

/// A limit for many keys that share one state.
#[derive(Clone, Debug, PartialEq)]
pub struct CoarseLimit {
    /// Its states fit a word, and it never admits more than the limit that it stands in for.
    pub limit: Limit,
    /// Set where the limit is another than the one that it stands in for.
    stand_in: Option<StandIn>,
}

/// What a stand-in forgets sooner than the limit that it stands in for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StandIn {
    /// Units that leak out of the stand-in within one period.
    leaked_max: u64,
    period: Span,
}

impl CoarseLimit {
    /// Until when a key that was counted in this state must not start anew.
    pub fn counts_until(&self, state: &State) -> Time {
        let expires_at = self.limit.expires_at(state);
        self.stand_in.map_or(expires_at, |stand_in| expires_at.plus(stand_in.period))
    }

    /// The most units that a key can have used that was counted in this state.
    pub fn used_max(&self, state: &State, now: Time) -> u64 {
        if self.counts_until(state) <= now {
            return 0;
        }
        let leaked_max = self.stand_in.map_or(0, |stand_in| stand_in.leaked_max);
        self.limit.used(state, now).saturating_add(leaked_max)
    }
}

impl Limit {
    /// A limit whose states fit a word and that never admits more than this one. None where there is none: units that callers hold
    /// must be held under names, a blocked limit admits nothing, and buckets of many years are too seldom to need one.
    pub fn coarse(&self) -> Option<CoarseLimit> {
        if self.packs() {
            return Some(CoarseLimit { limit: self.clone(), stand_in: None });
        }
        let (units, period) = match self {
            Limit::FixedWindow(limit) => limit.units_per_window_max(),
            Limit::SlidingWindow(limit) => limit.units_per_period(),
            Limit::SubWindows(limit) => limit.units_per_period(),
            Limit::SlidingLog(limit) => limit.units_per_period(),
            _ => return None,
        };
        // A bucket that does not fit a word would read every word as an unused key, and admit all of them.
        let (bucket, leaked_max) = stand_in(units, period).filter(|(bucket, _)| bucket.packs())?;
        Some(CoarseLimit { limit: bucket.into(), stand_in: Some(StandIn { leaked_max, period }) })
    }

    /// A number for the limit and all its numbers: equal limits have equal ones, and different limits most likely different
    /// ones. Two limits with the same number may share a state.
    pub fn fingerprint(&self) -> u64 {
        let mut sum = self.shape();
        self.put_numbers(Time::default(), &mut |number| {
            sum = (sum ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        });
        sum
    }
}

/// Half of the units at once, and the other half within the period: never more than all of them in any period. Also says how
/// many units that other half is.
fn stand_in(units: u64, period: Span) -> Option<(TokenBucket, u64)> {
    let refilled = (units / 2).clamp(1, period.0.max(1));
    let bucket = TokenBucket::new(Rate::new(refilled, period).ok()?, units - units / 2).ok()?;
    Some((bucket, refilled))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

    use super::*;
    use crate::{
        Ask, Blocked, Concurrency, Cost, FixedWindow, LeakyBucket, LeakyQueue, OldestCounts, SlidingLog,
        SlidingWindow, SubWindows,
    };

    const MINUTE: Span = Span(60_000_000_000);

    fn rate(units: u64) -> Rate {
        Rate::new(units, MINUTE).unwrap()
    }

    /// Asks as often as can matter for ten periods, and counts what any period has admitted.
    fn most_in_a_period(limit: &Limit, asks_per_period: u64) -> u64 {
        let (mut state, mut admitted, mut most) = (limit.fresh(), Vec::new(), 0);
        for ask in 0..10 * asks_per_period {
            let now = Time(1_700_000_000_000_000_000 + ask * (MINUTE.0 / asks_per_period));
            while limit.decide(&mut state, Ask::take(Cost::ONE, now)).is_allowed() {
                admitted.push(now);
            }
            let in_period = admitted.iter().rev().take_while(|at| at.plus(MINUTE) > now).count();
            most = most.max(in_period as u64);
        }
        most
    }

    #[test]
    fn a_stand_in_fits_a_word_and_admits_no_more_in_any_period() {
        for units in [1, 2, 3, 5, 100] {
            let wholes: [Limit; 2] = [
                SlidingLog::new(rate(units)).unwrap().into(),
                SubWindows::new(rate(units), 10, OldestCounts::Whole).unwrap().into(),
            ];
            for whole in wholes {
                let coarse = whole.coarse().unwrap().limit;
                assert!(coarse.packs());
                let most = most_in_a_period(&coarse, 600);
                assert!((1..=units).contains(&most), "{most} of {units} under {}", whole.algorithm());
            }
        }
    }

    /// Asks a stand-in as often as can matter, and compares with what it says that a key may have used.
    #[test]
    fn a_key_has_used_no_more_within_a_period_than_its_stand_in_says() {
        for units in [1, 2, 3, 5, 100] {
            let log = Limit::from(SlidingLog::new(rate(units)).unwrap());
            let coarse = log.coarse().unwrap();
            let (mut state, mut admitted) = (coarse.limit.fresh(), Vec::new());
            for ask in 0..3_000_u64 {
                let now = Time(1_700_000_000_000_000_000 + ask * (MINUTE.0 / 600));
                // Pauses let the stand-in forget what the log still counts.
                while ask % 1_000 < 400
                    && coarse.limit.decide(&mut state, Ask::take(Cost::ONE, now)).is_allowed()
                {
                    admitted.push(now);
                }
                let in_period = admitted.iter().rev().take_while(|at| at.plus(MINUTE) > now).count() as u64;
                let used_max = coarse.used_max(&state, now);
                assert!(in_period <= used_max, "{in_period} used, {used_max} said, {units} units");
            }
        }
    }

    #[test]
    fn a_limit_of_many_years_has_no_stand_in_that_does_not_fit_a_word() {
        let years = |years: u64| Span(years * 365 * 86_400 * 1_000_000_000);
        for (units, period) in [(1, years(20)), (3, years(10)), (1_000, years(100))] {
            let log = Limit::from(SlidingLog::new(Rate::new(units, period).unwrap()).unwrap());
            assert_eq!(log.coarse(), None, "{units} in {period:?}");
        }
        let log = Limit::from(SlidingLog::new(Rate::new(1, years(10)).unwrap()).unwrap());
        assert!(log.coarse().is_some_and(|coarse| coarse.limit.packs()));
    }

    #[test]
    fn a_limit_whose_states_fit_a_word_stands_for_itself() {
        let limits: [Limit; 5] = [
            TokenBucket::new(rate(5), 5).unwrap().into(),
            LeakyBucket::new(rate(5), 5).unwrap().into(),
            LeakyQueue::new(rate(5), MINUTE).unwrap().into(),
            FixedWindow::new(rate(5)).into(),
            SlidingWindow::new(rate(5)).into(),
        ];
        for limit in limits {
            assert_eq!(limit.coarse().unwrap().limit, limit);
        }
    }

    #[test]
    fn windows_of_numbers_that_do_not_fit_a_word_have_a_stand_in() {
        let windows: [Limit; 2] =
            [FixedWindow::new(rate(1 << 40)).into(), SlidingWindow::new(rate(1 << 40)).into()];
        for window in windows {
            assert!(!window.packs());
            let coarse = window.coarse().unwrap().limit;
            assert!(coarse.packs() && coarse.capacity() <= window.capacity());
        }
    }

    #[test]
    fn nothing_stands_in_for_units_that_are_held_or_blocked() {
        assert_eq!(Limit::from(Concurrency::new(5, MINUTE).unwrap()).coarse(), None);
        assert_eq!(Limit::from(Blocked).coarse(), None);
    }

    #[test]
    fn a_fingerprint_tells_limits_apart_by_each_of_their_numbers() {
        let limits: [Limit; 6] = [
            TokenBucket::new(rate(5), 5).unwrap().into(),
            TokenBucket::new(rate(5), 6).unwrap().into(),
            TokenBucket::new(rate(6), 5).unwrap().into(),
            FixedWindow::new(rate(5)).into(),
            FixedWindow::new(rate(6)).into(),
            SlidingWindow::new(rate(5)).into(),
        ];
        for (index, limit) in limits.iter().enumerate() {
            assert_eq!(limit.fingerprint(), limit.clone().fingerprint());
            for other in &limits[..index] {
                assert_ne!(limit.fingerprint(), other.fingerprint(), "{limit:?} and {other:?}");
            }
        }
    }
}
