//! What a node has of one key: the blocks that it may spend, and how many units it should ask for next.
//!
//! A block should last for most of its life: fewer questions to the authority, but the more units are out, the more are out of others' reach. So
//! it is sized by demand, grows fourfold at most from one to the next, and the authority grants only a node's part of what is left: near the limit
//! units come one by one. The next block is asked for before the last one runs out, and what is left of one goes back before it would die.

use tollgate_core::{LeaseRest, SharedLimit, Span, Time};

use crate::authority::Grant;

/// A block is sized for all of its life but this part of it, in which what is left goes back.
const LAST_PART: u64 = 4;
/// Nobody has wanted anything for this part of a life: all goes back.
const IDLE_PART: u64 = 2;
/// For units that nobody wants in that time, nothing is asked: so many are too few.
const WANTED_MIN: u64 = 2;
/// By how much a block may be larger than the one before.
const GROWTH_MAX: u64 = 4;
/// After a question that nobody has answered, the next one waits: as long as this, and up to twice as long, so that not all keys ask again at once.
const WAIT_AFTER_FAILURE: Span = Span::from_ticks(100_000_000);
/// The longest that a denial keeps a purse from asking.
const WAIT_AFTER_DENIAL_MAX: Span = Span::from_ticks(1_000_000_000);
/// A deadline is this part of the life earlier than it could be: clocks do not run equally fast.
const DRIFT_PART: u64 = 1_000;
/// The longest that an answer can be under way.
const STALE_MAX: Span = Span::from_ticks(1_000_000_000);
/// The most blocks of one key: the one that is being spent, the next, and what came late.
const BLOCKS_MAX: usize = 4;

/// Under which terms a node may have units of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The longest that a block may be spent, in nanoseconds.
    pub life: Span,
    /// The most units that this node may have, on the way to it included.
    pub units_max: u64,
    /// The next block is asked for when what is left would last for as long as this: several round trips.
    pub ahead: Span,
}

/// A block of units that can be spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    number: u64,
    units: u64,
    /// Units of it that requests may yet put back.
    lent: u64,
    /// When the authority counted them, and until when it takes them back, in its ticks.
    counted_at: Time,
    returns_until: Time,
    /// From when on they are not spent any more, by the clock of this node.
    deadline: Time,
    /// From when on what is left goes back.
    ends_soon_at: Time,
    /// From when on the authority certainly does not take it back any more, by the clock of this node: it cannot have granted it later than now.
    returnable_until: Time,
}

/// What is left of a block, on its way back, and until when it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Returning {
    number: u64,
    units: u64,
    until: Time,
}

/// What was asked for and is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    number: u64,
    units: u64,
    at: Time,
    /// From when on nothing of it could be spent.
    dies_at: Time,
}

/// What the authority said last about a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Known {
    remaining: u64,
    /// When the limit is as good as unused, by the clock of this node.
    reset_at: Option<Time>,
    /// When the authority said it, by its clock and by that of this node.
    said_at: Time,
    heard_at: Time,
}

/// Units that were spent, so that they can be put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spent {
    /// The blocks, by their numbers, and the units of each.
    parts: [(u64, u64); BLOCKS_MAX],
    /// When the authority counted the first of them, in its ticks. Blocks end with their windows, so the others are of the same one.
    pub counted_at: Time,
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

    /// How many units.
    pub fn units(&self) -> u64 {
        self.parts.iter().map(|part| part.1).sum()
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
    /// What is on its way back. Until the authority has it, nobody else does.
    returning: Vec<Returning>,
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
            returning: Vec::new(),
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

    /// How many units are here or may be on the way, here or back.
    pub fn units_out(&self, now: Time) -> u64 {
        self.units(now)
            + self.units_elsewhere(now)
            + self.asked.map_or(0, |asked| if now < asked.dies_at { asked.units } else { 0 })
    }

    /// What requests have spent that they may yet put back: until then it counts as if it were here. Once its block is gone, nothing can be put back.
    fn lent(&self, now: Time) -> u64 {
        self.blocks.iter().filter(|block| block.deadline > now).map(|block| block.lent).sum()
    }

    /// What requests may put back, and what is on its way to the authority.
    fn units_elsewhere(&self, now: Time) -> u64 {
        let is_on_way = |returning: &&Returning| now < returning.until;
        self.lent(now) + self.returning.iter().filter(is_on_way).map(|returning| returning.units).sum::<u64>()
    }

    /// Whether nothing is lost by forgetting it: nothing is in it or on the way, and nobody wants so much that anything would be.
    pub fn is_idle(&self, terms: &Terms, now: Time) -> bool {
        let is_quiet = now.since(self.wanted_at).ticks() > terms.life.ticks() / LAST_PART;
        let is_asking = self.asked.is_some_and(|asked| now < asked.dies_at);
        is_quiet && !is_asking && self.units_out(now) == 0
    }

    /// Whether this is the question that has no answer yet.
    pub fn is_asking(&self, number: u64) -> bool {
        self.asked.is_some_and(|asked| asked.number == number)
    }

    /// Somebody wants units. Spends them if there are enough, or lends them: whoever has them is to say what became of them, by [`Purse::keep`] or
    /// [`Purse::put_back`].
    pub fn spend(&mut self, units: u64, is_lent: bool, now: Time) -> Option<Spent> {
        if self.wanted_since == Time::default() {
            self.wanted_since = now; // The first since it was closed.
        }
        self.wanted = self.wanted.saturating_add(units);
        self.wanted_at = self.wanted_at.max(now);
        (self.units(now) >= units).then(|| self.take(units, is_lent, now))
    }

    /// Spends or lends what is here of units that are more than that: the authority has counted it already, so it is to be asked for the others alone.
    pub fn spend_part(&mut self, units: u64, is_lent: bool, now: Time) -> Option<Spent> {
        let part = self.units(now).min(units.saturating_sub(1));
        (part > 0).then(|| self.take(part, is_lent, now))
    }

    fn take(&mut self, units: u64, is_lent: bool, now: Time) -> Spent {
        let mut spent = self.look(now);
        spent.remaining = spent.remaining.saturating_sub(units);
        let (mut left, mut parts) = (units, spent.parts.iter_mut());
        for block in self.blocks.iter_mut().filter(|block| block.deadline > now && block.units > 0) {
            let Some(part) = parts.next().filter(|_| left > 0) else { break };
            let taken = left.min(block.units);
            *part = (block.number, taken);
            if left == units {
                spent.counted_at = block.counted_at;
            }
            block.units -= taken;
            block.lent += if is_lent { taken } else { 0 };
            left -= taken;
        }
        spent
    }

    /// What could be spent, if enough can.
    pub fn peek(&self, units: u64, now: Time) -> Option<Spent> {
        (self.units(now) >= units).then(|| self.look(now))
    }

    /// What was lent is spent.
    pub fn keep(&mut self, spent: &Spent) {
        for (number, units) in spent.parts() {
            if let Some(block) = self.blocks.iter_mut().find(|block| block.number == number) {
                block.lent = block.lent.saturating_sub(units);
            }
        }
    }

    /// Puts back what was lent. What has died since is lost, and so is what a node may not have any more: so many units are returned.
    pub fn put_back(&mut self, spent: &Spent, terms: &Terms, now: Time) -> u64 {
        self.keep(spent);
        let (mut room, mut lost) = (terms.units_max.saturating_sub(self.units_out(now)), 0);
        for (number, units) in spent.parts() {
            let block = self.blocks.iter_mut().find(|block| block.number == number);
            let fitting = if block.is_some() { units.min(room) } else { 0 };
            if let Some(block) = block {
                block.units += fitting;
            }
            room -= fitting;
            lost += units - fitting;
        }
        self.wanted = self.wanted.saturating_sub(spent.units());
        lost
    }

    /// How many units to ask for, if it is time to, and the number of the question. Whoever asks has to tell what became of it. `block_life` is how long
    /// a block would live that is granted now.
    pub fn ask(
        &mut self,
        terms: &Terms,
        now: Time,
        block_life: impl FnOnce() -> Span,
        number: impl FnOnce() -> u64,
    ) -> Option<(u64, u64)> {
        let elapsed = now.since(self.wanted_since).ticks().max(1);
        if self.wanted < WANTED_MIN {
            if elapsed > terms.life.ticks() / IDLE_PART {
                self.wanted_since = self.wanted_at; // A single one long ago is no demand.
            }
            return None;
        }
        // Whoever should have said what became of it never will, and what is granted after all is not taken.
        self.asked.take_if(|asked| now >= asked.dies_at);
        let held = self.units(now);
        // This is looked at with every request, and so without a division.
        let lasts_ahead = product(held, elapsed) > product(self.wanted, terms.ahead.ticks());
        // Where it may have little, half of that is worth a question.
        if self.asked.is_some() || now < self.asks_from || lasts_ahead || held > terms.units_max / 2 {
            return None;
        }
        let demand = |span_ns: u64| {
            let units = product(self.wanted, span_ns) / u128::from(elapsed);
            u64::try_from(units).unwrap_or(u64::MAX)
        };
        // So many less one, since the first of them marks the beginning.
        if product(self.wanted - 1, terms.life.ticks() / IDLE_PART) < product(WANTED_MIN, elapsed) {
            if elapsed > terms.life.ticks() {
                // What was long ago says less than what is now.
                (self.wanted, self.wanted_since) =
                    (self.wanted / 2, now.minus(Span::from_ticks(elapsed / 2)));
            }
            return None;
        }
        let room = terms.units_max.saturating_sub(held + self.units_elsewhere(now));
        let lasts_ns = block_life().ticks().min(terms.life.ticks() / LAST_PART * (LAST_PART - 1));
        let units = demand(lasts_ns).min(self.size.saturating_mul(GROWTH_MAX)).min(room);
        if self.blocks.len() >= BLOCKS_MAX {
            self.drop_spent(now);
        }
        if units == 0 || self.blocks.len() >= BLOCKS_MAX {
            return None;
        }
        let number = number();
        self.size = units;
        self.asked = Some(Asked { number, units, at: now, dies_at: now.plus(terms.life) });
        (self.wanted, self.wanted_since) = (0, now);
        Some((number, units))
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
        let ends_soon_at = deadline.minus(Span::from_ticks(life.ticks() / LAST_PART));
        let number = asked.number;
        let returnable_until = now.plus(life).plus(Span::from_ticks(life.ticks() / DRIFT_PART));
        let block = Block {
            number,
            units: leased,
            lent: 0,
            counted_at: at,
            returns_until,
            deadline,
            ends_soon_at,
            returnable_until,
        };
        self.blocks.push(block);
        self.blocks.sort_by_key(|block| block.deadline);
    }

    /// Nobody has answered: whatever was granted is not ours.
    pub fn failed(&mut self, number: u64, now: Time) {
        if self.asked.take_if(|asked| asked.number == number).is_some() {
            let more = number % WAIT_AFTER_FAILURE.ticks();
            self.asks_from = now.plus(WAIT_AFTER_FAILURE).plus(Span::from_ticks(more));
        }
    }

    /// The authority was asked for units that were not here. What it said before what is known already, and is only heard now, is no news.
    pub fn know(&mut self, grant: &Grant, now: Time) {
        // Of what was said at the same moment, in one transaction say, that which leaves less was said later, or does not promise too much.
        let is_same = grant.at == self.known.said_at;
        let is_older =
            grant.at < self.known.said_at || is_same && grant.decision.remaining > self.known.remaining;
        // After a while it is believed all the same: somebody may have set its clock back.
        if is_older && now.since(self.known.heard_at) < STALE_MAX {
            return;
        }
        let reset_at = grant.decision.reset_after.map(|span| now.plus(span));
        let (remaining, said_at) = (grant.decision.remaining, grant.at);
        self.known = Known { remaining, reset_at, said_at, heard_at: now };
    }

    /// Forgets what has died, and gives up what is not needed here: all if nobody has wanted any for a while, else what would die soon, and what is
    /// more than this node may have. What is given up cannot be spent any more, and is to be given back.
    pub fn tend(&mut self, terms: &Terms, now: Time, mut give_up: impl FnMut(LeaseRest)) {
        self.drop_spent(now);
        let is_idle = now.since(self.wanted_at).ticks() > terms.life.ticks() / IDLE_PART;
        let goes_back = |block: &mut Block| is_idle || block.ends_soon_at <= now;
        let mut unwanted: Vec<Block> = self.blocks.extract_if(.., goes_back).collect();
        // Whole blocks, because the authority takes back once what has one number; those first that live longest, which are worth most to
        // others.
        while self.units(now) > terms.units_max
            && let Some(block) = self.blocks.pop()
        {
            unwanted.push(block);
        }
        self.give_up(unwanted, now, &mut give_up);
        if is_idle {
            self.size = 1;
        }
    }

    /// The authority has taken back what was given up, or has refused it.
    pub fn returned(&mut self, number: u64) {
        self.returning.retain(|returning| returning.number != number);
    }

    /// Gives up everything. What is on the way is not ours when it comes.
    pub fn close(&mut self, now: Time, mut give_up: impl FnMut(LeaseRest)) {
        self.drop_spent(now);
        self.asked = None;
        // The clock may be about to jump: no moment from before may keep it from asking.
        (self.asks_from, self.known) = (Time::default(), Known::default());
        (self.wanted, self.wanted_since, self.wanted_at) = (0, Time::default(), Time::default());
        let blocks = std::mem::take(&mut self.blocks);
        self.give_up(blocks, now, &mut give_up);
    }

    fn give_up(&mut self, blocks: Vec<Block>, now: Time, give_up: &mut impl FnMut(LeaseRest)) {
        self.returning.retain(|returning| now < returning.until); // Whatever has not arrived by now never will.
        for block in blocks {
            let Block { number, units, returnable_until: until, .. } = block;
            self.returning.push(Returning { number, units, until });
            give_up(block.rest());
        }
    }

    /// Forgets blocks of which nothing can be spent, now or when a request puts it back.
    fn drop_spent(&mut self, now: Time) {
        self.blocks.retain(|block| block.deadline > now && (block.units > 0 || block.lent > 0));
    }

    fn look(&self, now: Time) -> Spent {
        Spent {
            parts: [(0, 0); BLOCKS_MAX],
            counted_at: Time::default(),
            remaining: self.known.remaining.saturating_add(self.units(now)),
            reset_after: self.known.reset_at.map(|reset_at| reset_at.since(now)),
        }
    }
}

impl Block {
    /// What is left of it, as the authority is told.
    fn rest(&self) -> LeaseRest {
        let Block { number, units, counted_at, returns_until: deadline, .. } = *self;
        LeaseRest { units, counted_at, deadline, number }
    }
}

fn product(one: u64, other: u64) -> u128 {
    u128::from(one) * u128::from(other)
}
