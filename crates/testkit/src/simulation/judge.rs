//! What must hold: the published bounds, and that no unit is spent twice.

use std::collections::HashMap;

use tollgate_core::{Ask, Cost, Limit, Rate, SlidingLog, Span, State, SubWindows, Time, TokenBucket};
use tollgate_core::{FixedWindow, OldestCounts, SlidingWindow};

use super::draw::{Kind, Numbers, START, Schedule};

/// A request that passed, when, and by how many units.
#[derive(Clone, Copy, Debug)]
struct Passed {
    at_us: u64,
    units: u64,
}

/// What is known of one lease.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    granted: u64,
    /// Until when the authority may take back what is left, by its own clock.
    deadline: Time,
    /// Until when it may be spent, in nanoseconds of the time that passes for all.
    dies_at: u64,
    spent: u64,
    returned: u64,
}

/// What a bucket gives in all: never more than it holds and what has come back since the beginning, however it is leased.
#[derive(Clone, Copy, Debug)]
struct InAll {
    burst: u64,
    interval_us: u64,
    passed: u64,
    last_us: u64,
}

impl InAll {
    fn new(schedule: &Schedule) -> Option<InAll> {
        let numbers = schedule.largest_numbers();
        let is_judged = numbers.kind == Kind::Bucket && schedule.faults.clock_step == 0;
        let interval_us = (numbers.period_ms * 1_000).div_ceil(numbers.units);
        is_judged.then_some(InAll { burst: numbers.burst, interval_us, passed: 0, last_us: START / 1_000 })
    }

    fn passes(&mut self, Passed { at_us, units }: Passed) -> Result<(), String> {
        self.passed += units;
        self.last_us = self.last_us.max(at_us);
        let elapsed_us = self.last_us - START / 1_000;
        if self.passed * self.interval_us <= self.burst * self.interval_us + elapsed_us {
            return Ok(());
        }
        Err(format!("{self:?}: more has passed since the beginning than there ever was"))
    }
}

/// Judges one run.
pub(super) struct Judge {
    /// What all that passes has to be admitted by.
    bound: Limit,
    state: State,
    passed: Vec<Passed>,
    in_all: Option<InAll>,
    accounts: HashMap<u64, Account>,
    pub(super) spent: u64,
}

impl Judge {
    pub(super) fn new(schedule: &Schedule) -> Judge {
        let bound = bound(schedule);
        let state = bound.fresh();
        let in_all = InAll::new(schedule);
        Judge { bound, state, passed: Vec::new(), in_all, accounts: HashMap::new(), spent: 0 }
    }

    /// A request has passed. What the authority decided comes to be known a little later.
    pub(super) fn passes(&mut self, at_us: u64, units: u64) -> Result<(), String> {
        let passed = Passed { at_us, units };
        if let Some(in_all) = &mut self.in_all {
            in_all.passes(passed)?;
        }
        let is_last = self.passed.last().is_none_or(|last| last.at_us <= at_us);
        let at = self.passed.partition_point(|other| other.at_us <= at_us);
        self.passed.insert(at, passed);
        if is_last {
            return self.admit(passed);
        }
        self.state = self.bound.fresh();
        for passed in self.passed.clone() {
            self.admit(passed)?;
        }
        Ok(())
    }

    fn admit(&mut self, Passed { at_us, units }: Passed) -> Result<(), String> {
        let ask = Ask::take(Cost::new(units), Time::from_ticks(at_us));
        let decision = self.bound.decide(&mut self.state, ask);
        if decision.is_allowed() {
            return Ok(());
        }
        Err(format!("{units} units at {at_us} are beyond the bound {:?}: {decision:?}", self.bound))
    }

    /// The authority has granted units. It takes back what is left of them until a moment of its own time, and they may be spent until one of everybody's.
    /// A question that comes twice is granted twice, but nobody has more than one of the answers.
    pub(super) fn granted(&mut self, lease: u64, units: u64, deadline: Time, dies_at: u64) {
        let account = self.accounts.entry(lease).or_default();
        account.granted = account.granted.max(units);
        account.deadline = account.deadline.max(deadline);
        account.dies_at = account.dies_at.max(dies_at);
    }

    /// A node spends units of a lease.
    pub(super) fn spends(&mut self, lease: u64, units: u64, now: u64) -> Result<(), String> {
        if let Some(account) = self.accounts.get(&lease)
            && now > account.dies_at
        {
            return Err(format!("lease {lease}: {account:?}: spent at {now}, after its deadline"));
        }
        self.spent += units;
        self.book(lease, |account| account.spent += units)
    }

    /// Whether what is left of a lease is still worth something.
    pub(super) fn is_alive(&self, lease: u64, now: u64) -> bool {
        self.accounts.get(&lease).is_some_and(|account| now <= account.dies_at)
    }

    /// A node has not spent them after all.
    pub(super) fn puts_back(&mut self, lease: u64, units: u64) -> Result<(), String> {
        self.book(lease, |account| account.spent -= units)
    }

    /// How many units were granted, and neither spent nor given back.
    pub(super) fn lost(&self) -> u64 {
        let lost = |account: &Account| account.granted - account.spent - account.returned;
        self.accounts.values().map(lost).sum()
    }

    /// Units that the authority gave to one request pass with it.
    pub(super) fn takes(&mut self, ticket: u64, units: u64) -> Result<(), String> {
        self.book(ticket, |account| account.spent += units)
    }

    /// The authority has taken back what is left of a lease.
    pub(super) fn returned(&mut self, lease: u64, units: u64, now: Time) -> Result<(), String> {
        if let Some(account) = self.accounts.get(&lease)
            && now > account.deadline
        {
            return Err(format!("lease {lease}: {account:?}: taken back at {now:?}, after its deadline"));
        }
        self.book(lease, |account| account.returned += units)
    }

    fn book(&mut self, lease: u64, book: impl Fn(&mut Account)) -> Result<(), String> {
        let account = self.accounts.entry(lease).or_default();
        book(account);
        if account.spent + account.returned > account.granted {
            return Err(format!("lease {lease}: {account:?}: more is spent and given back than was granted"));
        }
        Ok(())
    }
}

/// A limit that admits exactly what the published bound allows.
fn bound(schedule: &Schedule) -> Limit {
    let whole = schedule.largest_numbers();
    let out_max = schedule.units_max();
    let has_steps = schedule.faults.clock_step > 0;
    let slack = match whole.kind {
        // A lease of a window ends with it, as long as nobody moves the clock.
        Kind::FixedWindow | Kind::SlidingWindow | Kind::SubWindows => {
            if has_steps {
                out_max
            } else {
                0
            }
        }
        _ if schedule.is_strict => 0,
        Kind::Bucket | Kind::Log => out_max,
    };
    widened(whole, slack)
}

fn widened(Numbers { kind, units, period_ms, burst }: Numbers, slack: u64) -> Limit {
    let rate = |units| Rate::new(units, Span::from_ticks(period_ms * 1_000)).unwrap();
    match kind {
        Kind::Bucket => TokenBucket::new(rate(units), burst + slack).unwrap().into(),
        Kind::FixedWindow => FixedWindow::new(rate(units + slack)).into(),
        Kind::SlidingWindow => SlidingWindow::new(rate(units + slack)).into(),
        Kind::SubWindows => SubWindows::new(rate(units + slack), 5, OldestCounts::Whole).unwrap().into(),
        Kind::Log => SlidingLog::new(rate(units + slack)).unwrap().into(),
    }
}
