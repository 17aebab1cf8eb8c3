//! What runs come to, and what must not happen in them.

use std::fmt;

use super::draw::Schedule;

/// What a run came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Events in all.
    pub events: u64,
    /// Units that were spent of leases.
    pub spent_of_leases: u64,
    /// Units that the authority has granted one request at a time.
    pub taken: u64,
    /// Requests that did not pass.
    pub denied: u64,
    /// Units that came back.
    pub returned: u64,
    /// Units of grants that were undone.
    pub undone: u64,
    /// Units that were booked and acknowledged by the authority.
    pub booked: u64,
    /// Resets of a key.
    pub resets: u64,
}

impl Outcome {
    /// Adds another run.
    pub fn add(&mut self, other: &Outcome) {
        self.events += other.events;
        self.spent_of_leases += other.spent_of_leases;
        self.taken += other.taken;
        self.denied += other.denied;
        self.returned += other.returned;
        self.undone += other.undone;
        self.booked += other.booked;
        self.resets += other.resets;
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { events, spent_of_leases, taken, denied, returned, undone, booked, resets } = self;
        write!(f, "events={events} spent_of_leases={spent_of_leases} taken={taken} denied={denied} ")?;
        write!(f, "returned={returned} undone={undone} booked={booked} resets={resets}")
    }
}

/// Something that must not happen.
#[derive(Clone, Debug)]
pub struct Violation {
    /// What replays it.
    pub seed: u64,
    /// How many events had happened.
    pub events: u64,
    /// What happened.
    pub what: String,
    /// In which world.
    pub schedule: Schedule,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Violation { seed, events, what, schedule } = self;
        write!(f, "seed {seed}, after {events} events: {what}\n{schedule:#?}")
    }
}
