//! Whose turn it is to send: the plan on one side, connections with room on the other.
//!
//! What is due and not yet taken is a number, not a queue: two copies of the plan are read, one by whoever watches the
//! clock, one by those who send. A turn that nobody had room for keeps its planned time, however late it is taken.

use std::cell::{Cell, RefCell};
use std::io;

use tokio::sync::Semaphore;
use tollgate_store::Clock;

use crate::alarm::Alarm;
use crate::plan::{Moment, Plan};

/// Permission to send some requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// When they were to be sent, since the start.
    pub(crate) planned_ns: u64,
    /// How many.
    pub(crate) requests: u64,
}

/// The turns of a run.
pub(crate) struct Turns {
    clock: Clock,
    start_ticks: Cell<u64>,
    /// When nobody got a turn any more.
    ended_ns: Cell<Option<u64>>,
    /// When the last turn came that somebody took, or would have.
    last_due_ns: Cell<u64>,
    order: Order,
}

enum Order {
    /// At planned times.
    Open { untaken: RefCell<Plan>, due: Semaphore },
    /// As soon as somebody has room.
    Closed { requests_left: Cell<u64>, end_ns: u64, batch: u64 },
}

impl Turns {
    /// Turns at planned times.
    pub(crate) fn open(plan: Plan) -> Turns {
        Turns::new(Order::Open { untaken: RefCell::new(plan), due: Semaphore::new(0) })
    }

    /// Turns for whoever asks, for so long, and so many requests at a time.
    pub(crate) fn closed(end_ns: u64, requests_max: u64, batch: u64) -> Turns {
        Turns::new(Order::Closed { requests_left: Cell::new(requests_max), end_ns, batch })
    }

    fn new(order: Order) -> Turns {
        let clock = Clock::new();
        let start_ticks = Cell::new(clock.now().ticks());
        Turns { clock, start_ticks, ended_ns: Cell::new(None), last_due_ns: Cell::new(0), order }
    }

    /// Time since the start.
    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.now().ticks().saturating_sub(self.start_ticks.get())
    }

    /// Lets turns come due from this moment on. Comes back when the last has.
    pub(crate) async fn start(&self) -> io::Result<()> {
        self.start_ticks.set(self.clock.now().ticks());
        let mut alarm = Alarm::new()?;
        match &self.order {
            Order::Open { untaken, due } => {
                let mut plan = untaken.borrow().clone();
                while let Some(moment) = plan.peek() {
                    let now_ns = self.now_ns();
                    if moment.at_ns > now_ns {
                        alarm.wait_ns(moment.at_ns - now_ns).await?;
                    }
                    due.add_permits(due_at(&mut plan, self.now_ns()));
                }
            }
            Order::Closed { end_ns, .. } => alarm.wait_ns(*end_ns).await?,
        }
        Ok(())
    }

    /// The next turn, once it has come. None after the last.
    pub(crate) async fn take(&self) -> Option<Turn> {
        if let Order::Open { due, .. } = &self.order {
            due.acquire().await.ok()?.forget();
        }
        self.next()
    }

    /// The next turn, if it has come.
    pub(crate) fn try_take(&self) -> Option<Turn> {
        if let Order::Open { due, .. } = &self.order {
            due.try_acquire().ok()?.forget();
        }
        self.next()
    }

    /// Whether no turn will come any more.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended_ns.get().is_some()
    }

    /// Ends it: nobody gets a turn any more.
    pub(crate) fn end(&self) {
        self.ended_ns.set(self.ended_ns.get().or_else(|| Some(self.now_ns())));
        if let Order::Open { due, .. } = &self.order {
            due.close();
        }
    }

    /// Passes over what was due before the end and never taken.
    pub(crate) fn give_up(&self, mut each: impl FnMut(Moment)) {
        let Order::Open { untaken, .. } = &self.order else { return };
        let mut untaken = untaken.borrow_mut();
        let ended_ns = self.ended_ns.get().unwrap_or_else(|| self.now_ns());
        while let Some(moment) = untaken.peek().filter(|moment| moment.at_ns <= ended_ns) {
            untaken.next();
            self.last_due_ns.set(moment.at_ns);
            each(moment);
        }
    }

    /// Until when turns came. In a closed loop they would have come to its end, had there been an answer.
    pub(crate) fn last_due_ns(&self) -> u64 {
        match &self.order {
            Order::Open { .. } => self.last_due_ns.get(),
            Order::Closed { end_ns, .. } => self.ended_ns.get().unwrap_or(*end_ns).min(*end_ns),
        }
    }

    fn next(&self) -> Option<Turn> {
        if self.has_ended() {
            return None;
        }
        match &self.order {
            Order::Open { untaken, .. } => {
                let mut untaken = untaken.borrow_mut();
                let moment = untaken.next();
                if untaken.peek().is_none() {
                    self.end();
                }
                let Moment { at_ns, requests } = moment?;
                self.last_due_ns.set(at_ns);
                Some(Turn { planned_ns: at_ns, requests })
            }
            Order::Closed { requests_left, end_ns, batch } => {
                let now_ns = self.now_ns();
                let requests = requests_left.get().min(*batch);
                if now_ns >= *end_ns || requests == 0 {
                    self.end();
                    return None;
                }
                requests_left.set(requests_left.get() - requests);
                Some(Turn { planned_ns: now_ns, requests })
            }
        }
    }
}

/// How many turns have come due, which are passed over.
fn due_at(plan: &mut Plan, now_ns: u64) -> usize {
    let mut due = 0;
    while plan.peek().is_some_and(|moment| moment.at_ns <= now_ns) {
        plan.next();
        due += 1;
    }
    due
}

#[cfg(test)]
mod tests;
