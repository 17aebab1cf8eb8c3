//! What a node has of one key: the blocks that it may spend, and how many units it should ask for next.
//!
//! A block should last for most of its life: fewer questions to the authority, but the more units are out, the more are out of others' reach. So
//! it is sized by demand, grows fourfold at most from one to the next, and the authority grants only a node's part of what is left: near the limit
//! units come one by one. The next block is asked for before the last one runs out.

use tollgate_core::{LeaseRest, SharedLimit, Span, Time};

use crate::authority::Grant;

/// A block should last for so many parts of its life.
const LASTS: (u64, u64) = (3, 4);
/// The next block is asked for when what is left would last for as long as this: several round trips.
const AHEAD: Span = Span::from_ticks(10_000_000);
/// By how much a block may be larger than the one before.
const GROWTH_MAX: u64 = 4;
/// After a question that nobody has answered, the next one waits.
const WAIT_AFTER_FAILURE: Span = Span::from_ticks(100_000_000);
/// The longest that a denial keeps a purse from asking.
const WAIT_AFTER_DENIAL_MAX: Span = Span::from_ticks(1_000_000_000);
/// A deadline is this part of the life earlier than it could be: clocks do not run equally fast.
const DRIFT_PART: u64 = 1_000;
/// The most blocks of one key: the one that is being spent, the next, and what came late.
const BLOCKS_MAX: usize = 4;

/// Under which terms a node may have units of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The longest that a block may be spent, in nanoseconds.
    pub life: Span,
    /// The most units that this node may have, on the way to it included.
    pub units_max: u64,
}

/// A block of units that can be spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    number: u64,
    units: u64,
    /// When the authority counted them, and until when it takes them back, in its ticks.
    counted_at: Time,
    returns_until: Time,
    /// From when on they are not spent any more, by the clock of this node.
    deadline: Time,
}

/// What was asked for and is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    number: u64,
    units: u64,
    at: Time,
}

/// What the authority said last about a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Known {
    remaining: u64,
    /// When the limit is as good as unused, by the clock of this node.
    reset_at: Option<Time>,
}

/// Units that were spent, so that they can be put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spent {
    /// The blocks, by their numbers, and the units of each.
    parts: [(u64, u64); BLOCKS_MAX],
    /// What can be had after that, as far as is known: here at once, and of the authority.
    pub remaining: u64,
    /// How long until the limit is as good as unused, as far as is known.
    pub reset_after: Option<Span>,
}

impl Spent {
    /// Of which leases, by their numbers, and how many units of each.
    pub fn parts(&self) -> impl Iterator<Item = (u64, u64)> {
        self.parts.into_iter().filter(|&(_, units)| units > 0)
    }
}

/// An answer of the authority to the question for a block.
#[derive(Clone, Copy, Debug)]
pub struct Granted<'a> {
    /// Which question.
    pub number: u64,
    /// The answer.
    pub grant: &'a Grant,
    /// The limit that it was asked under.
    pub limit: &'a SharedLimit,
    /// What the jitter of the key comes from.
    pub key_hash: u64,
}

/// What a node has of one key.
#[derive(Clone, Debug)]
pub struct Purse {
    /// Those with the earliest deadline first.
    blocks: Vec<Block>,
    asked: Option<Asked>,
    known: Known,
    /// How many units the last block was asked for.
    size: u64,
    /// What was wanted here since a moment, spent or not.
    wanted: u64,
    wanted_since: Time,
    wanted_at: Time,
    asks_from: Time,
}

impl Purse {
    /// An empty one, for a key that is asked for the first time.
    pub fn new(now: Time) -> Purse {
        Purse {
            blocks: Vec::new(),
            asked: None,
            known: Known::default(),
            size: 1,
            wanted: 0,
            wanted_since: now,
            wanted_at: now,
            asks_from: Time::default(),
        }
    }

    /// How many units can be spent.
    pub fn units(&self, now: Time) -> u64 {
        self.blocks.iter().filter(|block| block.deadline > now).map(|block| block.units).sum()
    }

    /// How many units are here or may be on the way.
    pub fn units_out(&self, now: Time) -> u64 {
        self.units(now) + self.asked.map_or(0, |asked| asked.units)
    }

    /// Whether nothing is lost by forgetting it: nothing is in it or on the way, and nobody has wanted anything for long.
    pub fn is_idle(&self, terms: &Terms, now: Time) -> bool {
        self.asked.is_none() && self.units(now) == 0 && now.since(self.wanted_at) > terms.life
    }

    /// Somebody wants units. Spends them if there are enough.
    pub fn spend(&mut self, units: u64, now: Time) -> Option<Spent> {
        self.wanted = self.wanted.saturating_add(units);
        self.wanted_at = self.wanted_at.max(now);
        let held = self.units(now);
        if held < units {
            return None;
        }
        let mut spent = self.look(now);
        spent.remaining = spent.remaining.saturating_sub(units);
        let (mut left, mut parts) = (units, spent.parts.iter_mut());
        for block in self.blocks.iter_mut().filter(|block| block.deadline > now && block.units > 0) {
            let Some(part) = parts.next().filter(|_| left > 0) else { break };
            let taken = left.min(block.units);
            *part = (block.number, taken);
            block.units -= taken;
            left -= taken;
        }
        Some(spent)
    }

    /// What could be spent, if enough can.
    pub fn peek(&self, units: u64, now: Time) -> Option<Spent> {
        (self.units(now) >= units).then(|| self.look(now))
    }

    /// Puts units back that were spent a moment ago. What has died since is lost.
    pub fn put_back(&mut self, spent: &Spent) {
        for &(number, units) in &spent.parts {
            if let Some(block) = self.blocks.iter_mut().find(|block| block.number == number) {
                block.units += units;
            }
        }
        let units: u64 = spent.parts.iter().map(|part| part.1).sum();
        self.wanted = self.wanted.saturating_sub(units);
    }

    /// How many units to ask for, if it is time to. Whoever asks has to tell what became of it, by this number.
    pub fn ask(&mut self, number: u64, terms: &Terms, now: Time) -> Option<u64> {
        let held = self.units(now);
        let lasts = Span::from_ticks(terms.life.ticks() / LASTS.1 * LASTS.0);
        let elapsed = now.since(self.wanted_since);
        if self.wanted <= 1 && elapsed > lasts {
            // A single one long ago is no demand.
            (self.wanted, self.wanted_since) = (self.wanted.min(1), self.wanted_at);
        }
        let elapsed = now.since(self.wanted_since).ticks().max(1);
        let demand = |span: Span| {
            let units = u128::from(self.wanted) * u128::from(span.ticks()) / u128::from(elapsed);
            u64::try_from(units).unwrap_or(u64::MAX)
        };
        let is_due = self.asked.is_none() && now >= self.asks_from && self.wanted > 1;
        // Where it may have little, half of that is worth a question.
        if !is_due || held > demand(AHEAD).min(terms.units_max / 2) {
            return None;
        }
        let room = terms.units_max.saturating_sub(held);
        let units = demand(lasts).min(self.size.saturating_mul(GROWTH_MAX)).min(room);
        if self.blocks.len() >= BLOCKS_MAX {
            self.drop_spent(now);
        }
        if units == 0 || self.blocks.len() >= BLOCKS_MAX {
            return None;
        }
        self.size = units;
        self.asked = Some(Asked { number, units, at: now });
        (self.wanted, self.wanted_since) = (0, now);
        Some(units)
    }

    /// The authority has answered. An answer to what is not asked (any more) changes nothing: it has come before, or was given up.
    pub fn granted(&mut self, granted: &Granted<'_>, terms: &Terms, now: Time) {
        let Grant { decision, at, leased, .. } = *granted.grant;
        let Some(asked) = self.asked.take_if(|asked| asked.number == granted.number) else { return };
        self.know(granted.grant, now);
        if leased == 0 {
            // The last units are not for blocks.
            self.size = 1;
            let wait = decision.retry_after().unwrap_or(WAIT_AFTER_DENIAL_MAX);
            self.asks_from = now.plus(wait.min(WAIT_AFTER_DENIAL_MAX));
            return;
        }
        let Granted { limit, key_hash, .. } = *granted;
        let life = limit.lease_life(key_hash, at, terms.life);
        let returns_until = limit.lease_deadline(key_hash, at, terms.life);
        let deadline = asked.at.plus(Span::from_ticks(life.ticks() - life.ticks() / DRIFT_PART));
        self.size = self.size.min(leased.max(1));
        let block = Block { number: asked.number, units: leased, counted_at: at, returns_until, deadline };
        self.blocks.push(block);
        self.blocks.sort_by_key(|block| block.deadline);
    }

    /// Nobody has answered: whatever was granted is not ours.
    pub fn failed(&mut self, number: u64, now: Time) {
        if self.asked.take_if(|asked| asked.number == number).is_some() {
            self.asks_from = now.plus(WAIT_AFTER_FAILURE);
        }
    }

    /// The authority was asked for units that were not here.
    pub fn know(&mut self, grant: &Grant, now: Time) {
        let reset_at = grant.decision.reset_after.map(|span| now.plus(span));
        self.known = Known { remaining: grant.decision.remaining, reset_at };
    }

    /// Forgets what has died, and gives up what is not needed here: all if nobody has wanted any for a while, else what is more than
    /// this node may have. What is given up cannot be spent any more, and is to be given back.
    pub fn tend(&mut self, terms: &Terms, now: Time, mut give_up: impl FnMut(LeaseRest)) {
        self.drop_spent(now);
        let is_idle = now.since(self.wanted_at).ticks() > terms.life.ticks() / 2;
        let units_max = if is_idle { 0 } else { terms.units_max };
        // Whole blocks, because the authority takes back once what has one number; those first that live longest, which are worth most
        // to others.
        while self.units(now) > units_max
            && let Some(Block { number, units, counted_at, returns_until: deadline, .. }) = self.blocks.pop()
        {
            give_up(LeaseRest { units, counted_at, deadline, number });
        }
        if is_idle {
            self.size = 1;
        }
    }

    /// Forgets blocks of which nothing can be spent. What was spent of one a moment ago cannot be put back then.
    fn drop_spent(&mut self, now: Time) {
        self.blocks.retain(|block| block.deadline > now && block.units > 0);
    }

    fn look(&self, now: Time) -> Spent {
        Spent {
            parts: [(0, 0); BLOCKS_MAX],
            remaining: self.known.remaining.saturating_add(self.units(now)),
            reset_after: self.known.reset_at.map(|reset_at| reset_at.since(now)),
        }
    }
}
