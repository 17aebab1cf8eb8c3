//! What must hold for one key: the published bounds, that no unit is spent twice, and that a booking is counted once.
//!
//! Resets divide a run into eras. The bound holds within each, and a unit that was granted in one does not come back to the count of another.

use std::collections::HashMap;

use tollgate_core::{Ask, Cost, Limit, Rate, SlidingLog, Span, State, SubWindows, Time, TokenBucket};
use tollgate_core::{FixedWindow, OldestCounts, SlidingWindow};

use super::authority::Effect;
use super::draw::{Kind, Numbers, START, Schedule};

/// When something happened to a key, and after how many resets of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) at_us: u64,
    era: usize,
}

/// A request that passed, when, and by how many units.
#[derive(Clone, Copy, Debug)]
struct Passed {
    at_us: u64,
    units: u64,
}

/// When a grant ends.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ends {
    /// Until when the authority may take back what is left, by its own clock.
    pub(super) deadline: Time,
    /// Until when it may be spent, in nanoseconds of the time that passes for all.
    pub(super) dies_at: u64,
    /// Until when its node certainly has it if it does not give it up, in the same time.
    pub(super) in_hand_until: u64,
}

/// What is known of one lease.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    granted: u64,
    ends: Ends,
    spent: u64,
    returned: u64,
    /// After how many resets it was granted.
    era: usize,
}

/// The time from one reset to the next: what has to admit all that passes in it, and what has passed.
struct Era {
    bound: Limit,
    state: State,
    passed: Vec<Passed>,
}

/// What a bucket gives in all: never more than it holds, once more after each reset, and what has come back since the beginning, however it is leased.
#[derive(Clone, Copy, Debug)]
struct InAll {
    burst: u64,
    /// One at the beginning, and one after each reset.
    bursts: u64,
    interval_us: u64,
    passed: u64,
    last_us: u64,
}

impl InAll {
    fn new(schedule: &Schedule) -> Option<InAll> {
        let numbers = schedule.largest_numbers();
        let is_judged = numbers.kind == Kind::Bucket && schedule.faults.clock_step == 0;
        let interval_us = (numbers.period_ms * 1_000).div_ceil(numbers.units);
        let last_us = START / 1_000;
        is_judged.then_some(InAll { burst: numbers.burst, bursts: 1, interval_us, passed: 0, last_us })
    }

    fn passes(&mut self, Passed { at_us, units }: Passed) -> Result<(), String> {
        self.passed += units;
        self.last_us = self.last_us.max(at_us);
        let elapsed_us = self.last_us - START / 1_000;
        if self.passed * self.interval_us <= self.bursts * self.burst * self.interval_us + elapsed_us {
            return Ok(());
        }
        Err(format!("{self:?}: more has passed since the beginning than there ever was"))
    }
}

/// Judges what happens to one key in one run.
pub(super) struct Judge {
    /// The bound after a reset: what was leased before may still be spent.
    bound_after_reset: Limit,
    eras: Vec<Era>,
    in_all: Option<InAll>,
    accounts: HashMap<u64, Account>,
    /// Units that the authority has booked, by question.
    booked: HashMap<u64, u64>,
    pub(super) spent: u64,
    /// Units that passed with requests, or were spent for bookings.
    used: u64,
}

impl Judge {
    pub(super) fn new(schedule: &Schedule) -> Judge {
        Judge {
            bound_after_reset: bound(schedule, After::Reset),
            eras: vec![Era::new(bound(schedule, After::Start))],
            in_all: InAll::new(schedule),
            accounts: HashMap::new(),
            booked: HashMap::new(),
            spent: 0,
            used: 0,
        }
    }

    /// A moment of now.
    pub(super) fn moment(&self, at_us: u64) -> Moment {
        Moment { at_us, era: self.era() }
    }

    fn era(&self) -> usize {
        self.eras.len() - 1
    }

    /// The authority has forgotten what it had counted.
    pub(super) fn resets(&mut self) {
        self.eras.push(Era::new(self.bound_after_reset.clone()));
        if let Some(in_all) = &mut self.in_all {
            in_all.bursts += 1;
        }
    }

    /// A request has passed. What the authority decided comes to be known a little later.
    pub(super) fn passes(&mut self, moment: Moment, units: u64) -> Result<(), String> {
        self.used += units;
        let passed = Passed { at_us: moment.at_us, units };
        if let Some(in_all) = &mut self.in_all {
            in_all.passes(passed)?;
        }
        self.eras[moment.era].passes(passed)
    }

    /// Units of a lease are spent for a booking.
    pub(super) fn books_here(&mut self, units: u64) {
        self.used += units;
    }

    /// Checks, once every request is decided, that what was spent was spent for a request that passed or a booking.
    pub(super) fn check_used(&self) -> Result<(), String> {
        let (spent, used) = (self.accounts.values().map(|account| account.spent).sum::<u64>(), self.used);
        if spent == used { Ok(()) } else { Err(format!("{spent} units were spent, and {used} of them used")) }
    }

    /// The authority has booked units: all of them, up to twice what the limit allows at once.
    pub(super) fn books(
        &mut self,
        question: u64,
        units: u64,
        (before, after): (u64, u64),
        limit: &Limit,
    ) -> Result<(), String> {
        if self.booked.insert(question, units).is_some() {
            return Err(format!("question {question}: {units} units are booked twice"));
        }
        let debt_max = before.max(2 * limit.capacity());
        if after == debt_max.min(before + units) {
            return Ok(());
        }
        Err(format!("question {question}: {units} units are booked on {before}, which makes {after}"))
    }

    /// A node has acknowledged a booking of which it had some units, and the authority was to book the others.
    pub(super) fn acknowledges(&self, units: u64, here: u64, question: u64) -> Result<(), String> {
        let booked = self.booked.get(&question).copied().unwrap_or_default();
        if here + booked == units {
            return Ok(());
        }
        Err(format!("question {question}: {units} units are acknowledged, {here} spent and {booked} booked"))
    }

    /// The authority has granted units. It takes back what is left of them until a moment of its own time, and they may be spent until one of everybody's.
    /// A question that comes twice is granted twice, but nobody has more than one of the answers.
    pub(super) fn granted(&mut self, lease: u64, units: u64, ends: Ends) {
        let era = self.era();
        let account = self.accounts.entry(lease).or_insert(Account { ends, ..Account::default() });
        account.granted = account.granted.max(units);
        account.ends.deadline = account.ends.deadline.max(ends.deadline);
        account.ends.dies_at = account.ends.dies_at.max(ends.dies_at);
        account.ends.in_hand_until = account.ends.in_hand_until.min(ends.in_hand_until);
        account.era = era;
    }

    /// A node spends units of a lease.
    pub(super) fn spends(&mut self, lease: u64, units: u64, now: u64) -> Result<(), String> {
        if let Some(account) = self.accounts.get(&lease)
            && now > account.ends.dies_at
        {
            return Err(format!("lease {lease}: {account:?}: spent at {now}, after its deadline"));
        }
        self.spent += units;
        self.account(lease, |account| account.spent += units)
    }

    /// Whether what is left of a lease is still worth something.
    pub(super) fn is_alive(&self, lease: u64, now: u64) -> bool {
        self.accounts.get(&lease).is_some_and(|account| now <= account.ends.dies_at)
    }

    /// Whether the node of a lease still has it, unless it gave it up.
    pub(super) fn is_in_hand(&self, lease: u64, now: u64) -> bool {
        self.accounts.get(&lease).is_some_and(|account| now < account.ends.in_hand_until)
    }

    /// A node has not spent them after all.
    pub(super) fn puts_back(&mut self, lease: u64, units: u64) -> Result<(), String> {
        self.account(lease, |account| account.spent -= units)
    }

    /// How many units were granted, and neither spent nor given back.
    pub(super) fn lost(&self) -> u64 {
        let lost = |account: &Account| account.granted - account.spent - account.returned;
        self.accounts.values().map(lost).sum()
    }

    /// Units that the authority gave to one request pass with it.
    pub(super) fn takes(&mut self, ticket: u64, units: u64) -> Result<(), String> {
        self.account(ticket, |account| account.spent += units)
    }

    /// The authority has taken back what is left of a lease.
    pub(super) fn returned(
        &mut self,
        lease: u64,
        units: u64,
        effect: Effect,
        now: Time,
    ) -> Result<(), String> {
        if let Some(account) = self.accounts.get(&lease)
            && now > account.ends.deadline
        {
            return Err(format!("lease {lease}: {account:?}: taken back at {now:?}, after its deadline"));
        }
        self.comes_back(lease, units, effect)
    }

    /// The authority has undone a grant, of a lease or to a request.
    pub(super) fn undone(&mut self, grant: u64, units: u64, effect: Effect) -> Result<(), String> {
        self.comes_back(grant, units, effect)
    }

    fn comes_back(&mut self, grant: u64, units: u64, effect: Effect) -> Result<(), String> {
        let era = self.era();
        if let Some(account) = self.accounts.get(&grant)
            && (effect == Effect::Counts && units > 0 && account.era < era)
        {
            return Err(format!("lease {grant}: {account:?}: {units} units come back after reset {era}"));
        }
        self.account(grant, |account| account.returned += units)
    }

    fn account(&mut self, lease: u64, change: impl Fn(&mut Account)) -> Result<(), String> {
        let account = self.accounts.entry(lease).or_default();
        change(account);
        if account.spent + account.returned > account.granted {
            return Err(format!("lease {lease}: {account:?}: more is spent and given back than was granted"));
        }
        Ok(())
    }
}

impl Era {
    fn new(bound: Limit) -> Era {
        Era { state: bound.fresh(), bound, passed: Vec::new() }
    }

    fn passes(&mut self, passed: Passed) -> Result<(), String> {
        let is_last = self.passed.last().is_none_or(|last| last.at_us <= passed.at_us);
        let at = self.passed.partition_point(|other| other.at_us <= passed.at_us);
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
}

/// Which part of a run a bound is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    Start,
    Reset,
}

/// A limit that admits exactly what the published bound allows.
fn bound(schedule: &Schedule, after: After) -> Limit {
    let whole = schedule.largest_numbers();
    let out_max = schedule.units_max();
    // A lease of a window ends with it, unless the clock is set; a reset leaves it, and its window is counted anew.
    let outlives_window = schedule.faults.clock_step > 0 || after == After::Reset;
    let slack = match whole.kind {
        Kind::FixedWindow | Kind::SlidingWindow | Kind::SubWindows => {
            if outlives_window {
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
