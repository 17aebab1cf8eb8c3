//! When requests are to be sent: decided before the first one is, and never changed by how the answers come.

use std::time::Duration;

use crate::random::Random;

/// How the moments of sending are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// At equal distances.
    Uniform,
    /// As many independent callers come: gaps of all lengths, exponentially distributed.
    Poisson,
}

/// How fast a load asks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Closed loop: each connection asks again when it was answered. Tells what a server can do, not how long callers wait.
    Max,
    /// Open loop: at planned times, whatever the answers do.
    Planned {
        /// Requests a second, above 0.
        per_second: f64,
        /// How the moments are spread.
        arrivals: Arrivals,
        /// How many requests are sent at each of the moments, over one connection.
        batch: u32,
    },
}

/// The moments of an open loop, from the first on. Two copies of it say the same.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Since the start; a float of nanoseconds is exact for 104 days.
    next_ns: f64,
    /// How many moments were before the next.
    index: u64,
    mean_gap_ns: f64,
    end_ns: f64,
    batch: u64,
    requests_left: u64,
    gaps: Option<Random>,
}

/// Requests to be sent at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Since the start.
    pub(crate) at_ns: u64,
    /// How many.
    pub(crate) requests: u64,
}

/// What a plan is made of, besides its pace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) duration: Duration,
    pub(crate) requests_max: u64,
    pub(crate) seed: u64,
}

impl Plan {
    pub(crate) fn new(per_second: f64, arrivals: Arrivals, batch: u32, extent: Extent) -> Plan {
        let batch = batch.max(1);
        Plan {
            next_ns: 0.0,
            index: 0,
            mean_gap_ns: 1e9 * f64::from(batch) / per_second,
            end_ns: extent.duration.as_nanos() as f64,
            batch: u64::from(batch),
            requests_left: extent.requests_max,
            gaps: (arrivals == Arrivals::Poisson).then(|| Random::new(extent.seed)),
        }
    }

    /// The next moment, which stays the next.
    pub(crate) fn peek(&self) -> Option<Moment> {
        let is_over = self.requests_left == 0 || self.next_ns >= self.end_ns;
        let requests = self.batch.min(self.requests_left);
        (!is_over).then_some(Moment { at_ns: self.next_ns as u64, requests })
    }
}

impl Iterator for Plan {
    type Item = Moment;

    fn next(&mut self) -> Option<Moment> {
        let moment = self.peek()?;
        self.requests_left -= moment.requests;
        self.index += 1;
        self.next_ns = match &mut self.gaps {
            Some(random) => self.next_ns + random.exponential(self.mean_gap_ns),
            // Not added up, and rounded: ten seconds of three a second are thirty, not thirty-one.
            None => (self.index as f64 * self.mean_gap_ns).round(),
        };
        Some(moment)
    }
}

#[cfg(test)]
mod tests;
