//! What a schedule has besides takes of one key: several keys per request, bookings and resets. Drawn from dice of its own, so that a seed keeps the
//! rest of its schedule, and seeds without any of it run as they always did.

use super::draw::{Dice, Schedule};

/// Under this number, the seeds that are kept as tests draw nothing here: their runs stay as they were.
const SALT: u64 = 0x6b65_797a;

/// How much of it a schedule has, in a thousand requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extras {
    /// How many keys there are.
    pub(super) keys: usize,
    /// Requests that charge several keys.
    several: u64,
    /// Requests that book what is spent already.
    books: u64,
    /// Resets.
    pub(super) resets: u64,
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Take,
    Book,
    Reset,
}

impl Extras {
    const NONE: Extras = Extras { keys: 1, several: 0, books: 0, resets: 0 };

    /// Half of all schedules have none.
    pub(super) fn draw(seed: u64) -> Extras {
        let mut dice = Dice::new(seed ^ SALT);
        if dice.happens(500) {
            return Extras::NONE;
        }
        Extras {
            keys: dice.one_of([1, 2, 2, 3]),
            several: dice.one_of([300, 700, 1_000]),
            books: dice.one_of([0, 0, 100, 300]),
            resets: dice.one_of([0, 0, 10, 40]),
        }
    }

    /// What the next request does, and which keys it is about: at least one.
    pub(super) fn next(self, dice: &mut Dice) -> (Verb, Vec<usize>) {
        let verb = if dice.happens(self.resets) {
            Verb::Reset
        } else if dice.happens(self.books) {
            Verb::Book
        } else {
            Verb::Take
        };
        let first = usize::try_from(dice.below(self.keys as u64)).unwrap();
        let has_several = dice.happens(self.several);
        let is_charged = |&key: &usize| key == first || has_several && dice.happens(700);
        (verb, (0..self.keys).filter(is_charged).collect())
    }
}

impl Schedule {
    /// The dice of a run for what is drawn on the way.
    pub(super) fn extra_dice(&self) -> Dice {
        Dice::new(!self.seed ^ SALT)
    }
}
