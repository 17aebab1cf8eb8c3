//! The judge: an exact log beside the limiter, which says after every answer whether it was right.

use std::collections::VecDeque;

use tollgate_core::{Ask, Limit, Span, State, Time};

use super::traffic::Traffic;

/// What an algorithm got wrong on a traffic.
pub(super) struct Judgement {
    arrivals: u64,
    false_allows: u64,
    false_denials: u64,
    /// The most units admitted within any one period, as a multiple of the limit.
    pub(super) worst: f64,
}

impl Judgement {
    /// Arrivals admitted although they did not fit, in percent.
    pub(super) fn false_allow_percent(&self) -> f64 {
        100.0 * self.false_allows as f64 / self.arrivals as f64
    }

    /// Arrivals denied although they would have fit, in percent.
    pub(super) fn false_deny_percent(&self) -> f64 {
        100.0 * self.false_denials as f64 / self.arrivals as f64
    }
}

/// What a limiter has admitted of one key within the last period.
#[derive(Default)]
struct Admissions {
    entries: VecDeque<(Time, u64)>,
    units: u64,
}

impl Admissions {
    /// Forgets what has left `(now - period, now]`.
    fn forget(&mut self, now: Time, period: Span) {
        while let Some(&(at, units)) = self.entries.front()
            && at.plus(period) <= now
        {
            self.units -= units;
            self.entries.pop_front();
        }
    }

    fn add(&mut self, now: Time, units: u64) {
        self.entries.push_back((now, units));
        self.units += units;
    }
}

/// Puts every arrival to `limit` and judges every answer.
pub(super) fn judge(limit: &Limit, traffic: &Traffic) -> Judgement {
    let mut states: Vec<State> = (0..traffic.keys).map(|_| limit.fresh()).collect();
    let mut admitted: Vec<Admissions> = (0..traffic.keys).map(|_| Admissions::default()).collect();
    let (mut false_allows, mut false_denials, mut most_units) = (0, 0, 0);
    for arrival in &traffic.arrivals {
        let admitted = &mut admitted[arrival.key];
        admitted.forget(arrival.at, traffic.rate.period());
        let fits = admitted.units + arrival.cost.units() <= traffic.rate.units();
        let decision = limit.decide(&mut states[arrival.key], Ask::take(arrival.cost, arrival.at));
        if decision.is_allowed() {
            admitted.add(arrival.at, arrival.cost.units());
            most_units = most_units.max(admitted.units);
        }
        false_allows += u64::from(decision.is_allowed() && !fits);
        false_denials += u64::from(!decision.is_allowed() && fits);
    }
    Judgement {
        arrivals: traffic.arrivals.len() as u64,
        false_allows,
        false_denials,
        worst: most_units as f64 / traffic.rate.units() as f64,
    }
}

#[cfg(test)]
mod tests;
