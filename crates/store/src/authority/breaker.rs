//! When to stop asking a shard that fails, and when to ask it again.
//!
//! A shard that does not answer costs every request its whole deadline. The breaker sees what became of the asks and, once too many have
//! failed, says so at once instead. Then it lets one probe through at a time, and closes by itself when a few were answered.
//!
//! What became of an ask is known only later, and by then the breaker may have moved on. So every ask carries the [`Pass`] that it was
//! admitted with, and a result counts only in the phase that admitted it: an answer that was on its way when the breaker opened does not
//! close it, since only a probe shows how the shard is now; and a failure of an ask from before it closed (or opened) does not open it again.
//!
//! ```text
//!            over half failed, or a run of failures
//!   Closed ------------------------------------------> Open, for 100 ms to 1 s
//!     ^                                                 |      ^
//!     | PROBES_TO_CLOSE succeeded                  time |      | a probe failed: twice as long
//!     +---------------------- HalfOpen <----------------+------+
//! ```

#[cfg(test)]
mod tests;

use tollgate_core::{Span, Time};

const MS: u64 = 1_000_000;

/// Over how long failures are weighed against successes, in steps of half a second.
pub const WINDOW: Span = Span::from_ticks(10_000 * MS);
/// The grain of the sliding window: so much of it may be forgotten early.
const BUCKET: Span = Span::from_ticks(WINDOW.ticks() / BUCKETS as u64);
const BUCKETS: usize = 20;
/// So many asks at least say anything about a shard.
pub const ASKS_MIN: u64 = 20;
/// A run of failures without a success between them opens at once: at least so many,
pub const RUN_MIN: u32 = 5;
/// and over at least so long, since all asks of one flight fail together.
pub const RUN_SPAN_MIN: Span = Span::from_ticks(25 * MS);
/// How long it stays open at first, and how long at most. Each time is shortened by up to a quarter, so that the nodes of a fleet do
/// not come back all at once.
pub const OPEN_MIN: Span = Span::from_ticks(100 * MS);
/// See [`OPEN_MIN`].
pub const OPEN_MAX: Span = Span::from_ticks(1_000 * MS);
/// So many probes have to succeed.
pub const PROBES_TO_CLOSE: u32 = 3;
/// A probe of which nothing was heard for so long makes room for the next. Its result counts all the same when it comes.
pub const PROBE_PATIENCE: Span = Span::from_ticks(1_000 * MS);

/// Watches one shard.
#[derive(Clone, Debug)]
pub struct Breaker {
    phase: Phase,
    /// What became of the asks since it last closed.
    window: Window,
    /// The number of the first pass of this phase: those below it were given in another.
    first_pass: u64,
    last_pass: u64,
    open_for: Span,
    jitter: u64,
}

#[derive(Clone, Debug)]
enum Phase {
    Closed { run: Option<Run> },
    Open { until: Time, probe: Option<Probe>, succeeded: u32 },
}

/// Failures without a success between them.
#[derive(Clone, Copy, Debug)]
struct Run {
    began: Time,
    failures: u32,
}

#[derive(Clone, Copy, Debug)]
struct Probe {
    pass: Pass,
    sent_at: Time,
}

/// Says under which circumstances an ask was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass(u64);

/// Whether to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Yes, and say what became of it.
    Yes(Pass),
    /// Yes, but nothing else meanwhile: whether the shard is well again is to be found out.
    Probe(Pass),
    /// No, and there is no use in asking earlier than `until`.
    No {
        /// When the answer may be another one.
        until: Time,
    },
}

/// How a breaker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Everything is asked.
    Closed,
    /// One probe at a time is.
    HalfOpen,
    /// Nothing is.
    Open,
}

impl Breaker {
    /// A closed one. The seed decides only by how much its times are shortened: any number that differs between nodes will do.
    pub fn new(seed: u64) -> Breaker {
        Breaker {
            phase: Phase::Closed { run: None },
            window: Window::default(),
            first_pass: 0,
            last_pass: 0,
            open_for: OPEN_MIN,
            jitter: seed,
        }
    }

    /// Whether to ask now.
    pub fn admits(&mut self, now: Time) -> Admission {
        match &mut self.phase {
            Phase::Closed { .. } => Admission::Yes(Pass(self.first_pass)),
            Phase::Open { until, .. } if now < *until => Admission::No { until: *until },
            Phase::Open { probe: Some(probe), .. } if now < probe.sent_at.plus(PROBE_PATIENCE) => {
                Admission::No { until: probe.sent_at.plus(PROBE_PATIENCE) }
            }
            Phase::Open { probe, .. } => {
                self.last_pass += 1;
                let pass = Pass(self.last_pass);
                *probe = Some(Probe { pass, sent_at: now });
                Admission::Probe(pass)
            }
        }
    }

    /// How it stands.
    pub fn state(&self, now: Time) -> State {
        match self.phase {
            Phase::Closed { .. } => State::Closed,
            Phase::Open { until, .. } if now < until => State::Open,
            Phase::Open { .. } => State::HalfOpen,
        }
    }

    /// An ask was answered. Tells whether that closed the breaker.
    pub fn succeeded(&mut self, pass: Pass, now: Time) -> bool {
        if pass.0 < self.first_pass {
            return false;
        }
        match &mut self.phase {
            Phase::Closed { run } => {
                *run = None;
                self.window.bucket(now).succeeded += 1;
                false
            }
            Phase::Open { probe, succeeded, .. } => {
                *succeeded += 1;
                *probe = probe.filter(|probe| probe.pass != pass);
                let closes = *succeeded >= PROBES_TO_CLOSE;
                if closes {
                    self.open_for = OPEN_MIN;
                    // What was weighed before is over: with it, the first failure would open again.
                    self.window = Window::default();
                    self.enter(Phase::Closed { run: None });
                }
                closes
            }
        }
    }

    /// An ask was not answered. Tells whether that opened the breaker (again).
    pub fn failed(&mut self, pass: Pass, now: Time) -> bool {
        if pass.0 < self.first_pass {
            return false;
        }
        let opens = match &mut self.phase {
            Phase::Open { .. } => {
                self.open_for = Span::from_ticks(self.open_for.ticks() * 2).min(OPEN_MAX);
                true
            }
            Phase::Closed { run } => {
                self.window.bucket(now).failed += 1;
                let run = run.get_or_insert(Run { began: now, failures: 0 });
                run.failures = run.failures.saturating_add(1);
                run.is_long(now) || self.window.failed_mostly(now)
            }
        };
        if opens {
            let until = now.plus(self.open_for_jittered());
            self.enter(Phase::Open { until, probe: None, succeeded: 0 });
        }
        opens
    }

    /// Nobody will say what became of an ask, because nobody waits for it any more. If it was the probe, another may be sent.
    pub fn abandoned(&mut self, pass: Pass) {
        if let Phase::Open { probe, .. } = &mut self.phase {
            *probe = probe.filter(|probe| probe.pass != pass);
        }
    }

    /// Something else than an ask has shown that the shard is back: there is no use in waiting longer with the next probe.
    pub fn hurry(&mut self, now: Time) {
        if let Phase::Open { until, probe, .. } = &mut self.phase {
            *until = now.min(*until);
            *probe = None;
            self.open_for = OPEN_MIN;
        }
    }

    /// From here on, the results of passes given so far do not count.
    fn enter(&mut self, phase: Phase) {
        self.last_pass += 1;
        self.first_pass = self.last_pass;
        self.phase = phase;
    }

    fn open_for_jittered(&mut self) -> Span {
        self.jitter = super::mix(self.jitter);
        let whole = self.open_for.ticks();
        Span::from_ticks(whole - self.jitter % (whole / 4))
    }
}

impl Run {
    fn is_long(&self, now: Time) -> bool {
        self.failures >= RUN_MIN && now.since(self.began) >= RUN_SPAN_MIN
    }
}

/// What became of the asks of the last [`WINDOW`].
#[derive(Clone, Debug, Default)]
struct Window {
    buckets: [Bucket; BUCKETS],
}

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// Which [`BUCKET`] since the epoch it counts.
    index: u64,
    succeeded: u64,
    failed: u64,
}

impl Window {
    fn bucket(&mut self, now: Time) -> &mut Bucket {
        let index = now.ticks() / BUCKET.ticks();
        #[allow(clippy::cast_possible_truncation)] // It is below BUCKETS.
        let bucket = &mut self.buckets[(index % BUCKETS as u64) as usize];
        if bucket.index != index {
            *bucket = Bucket { index, ..Bucket::default() };
        }
        bucket
    }

    fn failed_mostly(&self, now: Time) -> bool {
        let oldest = (now.ticks() / BUCKET.ticks() + 1).saturating_sub(BUCKETS as u64);
        let counting = self.buckets.iter().filter(|bucket| bucket.index >= oldest);
        let (failed, asked) = counting.fold((0, 0), |(failed, asked), bucket| {
            (failed + bucket.failed, asked + bucket.failed + bucket.succeeded)
        });
        asked >= ASKS_MIN && failed * 2 > asked
    }
}
