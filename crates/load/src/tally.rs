//! What a run has shown so far: how long answers took, and what they said.

use hdrhistogram::Histogram;

/// Latencies are told apart from here on.
const LATENCY_NS_MIN: u64 = 100;
/// Whatever takes longer is told as this.
const LATENCY_NS_MAX: u64 = 600_000_000_000;
/// Three digits: an error of a tenth of a percent at most.
const LATENCY_DIGITS: u8 = 3;

/// What an answer said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Allowed,
    Denied,
    /// It was no decision; this is what it said instead.
    Refused(String),
}

/// Counts and latencies.
#[derive(Clone, Debug)]
pub struct Tally {
    /// From the planned moment of sending (in a closed loop, from sending), in nanoseconds: to the answer, whatever it said; to the moment
    /// when the connection broke; or to the end of the run. Nothing that was due is left out.
    pub latency_ns: Histogram<u64>,
    /// From the planned moment of sending to sending, in nanoseconds.
    pub lag_ns: Histogram<u64>,
    /// Requests that were sent.
    pub sent: u64,
    /// Requests that may pass.
    pub allowed: u64,
    /// Requests that may not.
    pub denied: u64,
    /// Requests that were not decided: the answer was an error, or the connection broke.
    pub errors: u64,
    /// Requests that were due and never sent, because too many were under way until the end.
    pub unsent: u64,
    /// Requests that were sent and not answered when the run ended.
    pub unanswered: u64,
    /// Bytes of answers.
    pub received_bytes: u64,
    /// The first error, in the server's own words.
    pub first_error: Option<String>,
}

impl Tally {
    pub(crate) fn new() -> Result<Tally, hdrhistogram::CreationError> {
        let histogram = Histogram::new_with_bounds(LATENCY_NS_MIN, LATENCY_NS_MAX, LATENCY_DIGITS)?;
        Ok(Tally {
            latency_ns: histogram.clone(),
            lag_ns: histogram,
            sent: 0,
            allowed: 0,
            denied: 0,
            errors: 0,
            unsent: 0,
            unanswered: 0,
            received_bytes: 0,
            first_error: None,
        })
    }

    /// Requests that were decided.
    pub fn decided(&self) -> u64 {
        self.allowed + self.denied
    }

    /// Requests whose end was seen.
    pub fn ended(&self) -> u64 {
        self.decided() + self.errors
    }

    pub(crate) fn send(&mut self, requests: u64, lag_ns: u64) {
        self.sent += requests;
        self.lag_ns.saturating_record_n(lag_ns, requests);
    }

    pub(crate) fn answer(&mut self, answer: Answer, latency_ns: u64) {
        match answer {
            Answer::Allowed => self.allowed += 1,
            Answer::Denied => self.denied += 1,
            Answer::Refused(error) => return self.fail(1, latency_ns, || error),
        }
        self.latency_ns.saturating_record(latency_ns);
    }

    /// Requests have waited so long, for an error or until their connection broke.
    pub(crate) fn fail(&mut self, requests: u64, waited_ns: u64, error: impl FnOnce() -> String) {
        self.errors += requests;
        self.latency_ns.saturating_record_n(waited_ns, requests);
        if requests > 0 && self.first_error.is_none() {
            self.first_error = Some(error());
        }
    }

    /// Requests that were never sent have waited so long.
    pub(crate) fn give_up_unsent(&mut self, requests: u64, waited_ns: u64) {
        self.unsent += requests;
        self.latency_ns.saturating_record_n(waited_ns, requests);
    }

    /// Requests that were sent have waited so long, and wait still.
    pub(crate) fn give_up_unanswered(&mut self, requests: u64, waited_ns: u64) {
        self.unanswered += requests;
        self.latency_ns.saturating_record_n(waited_ns, requests);
    }
}

#[cfg(test)]
mod tests;
