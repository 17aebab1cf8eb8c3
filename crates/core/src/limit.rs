//! The registry: every algorithm by name, and the two enums that make them one type.
//!
//! A store holds a [`State`] per key and knows nothing of algorithms; a rule holds a [`Limit`] and knows nothing
//! of stores. Naming an algorithm in the list at the end of this file is all it takes to add it to both.

use crate::algorithm::Algorithm;
use crate::algorithm::blocked::Blocked;
use crate::algorithm::concurrency::Concurrency;
use crate::algorithm::fixed_window::FixedWindow;
use crate::algorithm::leaky_bucket::LeakyBucket;
use crate::algorithm::leaky_queue::LeakyQueue;
use crate::algorithm::sliding_log::SlidingLog;
use crate::algorithm::sliding_window::SlidingWindow;
use crate::algorithm::sub_windows::SubWindows;
use crate::algorithm::token_bucket::TokenBucket;
use crate::ask::{Ask, Cost, Refund};
use crate::decision::Decision;
use crate::error::LimitError;
use crate::script::{Script, Scripted};
use crate::time::{Tick, Time};
use crate::word::{Packed, PackedVisitor};

macro_rules! registry {
    (words: [$($word:ident),*], wholes: [$($whole:ident),*]) => {
        /// A limit: an algorithm and its validated numbers.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Limit {
            $(#[allow(missing_docs)] $word($word),)*
            $(#[allow(missing_docs)] $whole($whole),)*
        }

        /// What is remembered of one key under one limit.
        #[derive(Clone, Debug, PartialEq)]
        pub enum State {
            $(#[allow(missing_docs)] $word(<$word as Algorithm>::State),)*
            $(#[allow(missing_docs)] $whole(<$whole as Algorithm>::State),)*
        }

        enum Kind {
            $($word,)*
            $($whole,)*
        }

        impl State {
            /// Memory held beyond the value itself.
            pub fn heap_bytes(&self) -> usize {
                match self {
                    $(State::$word(state) => <$word as Algorithm>::heap_bytes(state),)*
                    $(State::$whole(state) => <$whole as Algorithm>::heap_bytes(state),)*
                }
            }
        }

        $(impl From<$word> for Limit {
            fn from(limit: $word) -> Limit {
                Limit::$word(limit)
            }
        })*
        $(impl From<$whole> for Limit {
            fn from(limit: $whole) -> Limit {
                Limit::$whole(limit)
            }
        })*

        impl Script {
            /// The scripts of all algorithms, each once.
            pub fn all() -> Vec<&'static Script> {
                let mut all: Vec<&Script> = Vec::new();
                for script in [$(<$word as Scripted>::SCRIPT,)* $(<$whole as Scripted>::SCRIPT,)*] {
                    all.extend(script.filter(|script| !all.contains(script)));
                }
                all
            }
        }

        impl Limit {
            /// The names of all algorithms.
            pub const ALGORITHMS: &'static [&'static str] = &[$(stringify!($word),)* $(stringify!($whole),)*];

            /// The name of this limit's algorithm, one of [`Limit::ALGORITHMS`].
            pub fn algorithm(&self) -> &'static str {
                match self {
                    $(Limit::$word(_) => stringify!($word),)*
                    $(Limit::$whole(_) => stringify!($whole),)*
                }
            }

            /// The state of a key that was never seen.
            pub fn fresh(&self) -> State {
                match self {
                    $(Limit::$word(_) => State::$word(Default::default()),)*
                    $(Limit::$whole(_) => State::$whole(Default::default()),)*
                }
            }

            /// Answers a question, and takes or books what it asks for. The state of another algorithm counts as
            /// that of a key never seen: who changes the algorithm of a rule calls [`Limit::adapt`] first.
            pub fn decide(&self, state: &mut State, ask: Ask) -> Decision {
                match (self, state) {
                    $((Limit::$word(limit), State::$word(state)) => limit.decide(state, ask),)*
                    $((Limit::$whole(limit), State::$whole(state)) => limit.decide(state, ask),)*
                    (_, state) => {
                        *state = self.fresh();
                        self.decide(state, ask)
                    }
                }
            }

            /// Gives units back. A key never becomes richer than unused.
            pub fn give_back(&self, state: &mut State, refund: Refund) {
                match (self, state) {
                    $((Limit::$word(limit), State::$word(state)) => limit.give_back(state, refund),)*
                    $((Limit::$whole(limit), State::$whole(state)) => limit.give_back(state, refund),)*
                    _ => {}
                }
            }

            /// How many units count as used at `now`.
            pub fn used(&self, state: &State, now: Time) -> u64 {
                match (self, state) {
                    $((Limit::$word(limit), State::$word(state)) => limit.used(state, now),)*
                    $((Limit::$whole(limit), State::$whole(state)) => limit.used(state, now),)*
                    _ => 0,
                }
            }

            /// From when on the state answers like one that was never seen.
            pub fn expires_at(&self, state: &State) -> Time {
                match (self, state) {
                    $((Limit::$word(limit), State::$word(state)) => limit.expires_at(state),)*
                    $((Limit::$whole(limit), State::$whole(state)) => limit.expires_at(state),)*
                    _ => Time::default(),
                }
            }

            /// Tells apart what cannot be read with each other's numbers: equal shapes can share states.
            #[inline]
            pub fn shape(&self) -> u64 {
                match self {
                    $(Limit::$word(limit) => shape(Kind::$word, limit.shape()),)*
                    $(Limit::$whole(limit) => shape(Kind::$whole, limit.shape()),)*
                }
            }

            /// The script of this limit's algorithm. None where there is nothing to ask.
            pub(crate) fn script(&self) -> Option<&'static Script> {
                match self {
                    $(Limit::$word(_) => <$word as Scripted>::SCRIPT,)*
                    $(Limit::$whole(_) => <$whole as Scripted>::SCRIPT,)*
                }
            }

            /// As [`Scripted::in_ticks`].
            pub(crate) fn in_ticks(&self, tick: Tick) -> Result<Limit, LimitError> {
                Ok(match self {
                    $(Limit::$word(limit) => Limit::$word(limit.in_ticks(tick)?),)*
                    $(Limit::$whole(limit) => Limit::$whole(limit.in_ticks(tick)?),)*
                })
            }

            /// As [`Scripted::fits_script`].
            pub(crate) fn fits_script(&self, tick: Tick) -> bool {
                match self {
                    $(Limit::$word(limit) => limit.fits_script(tick),)*
                    $(Limit::$whole(limit) => limit.fits_script(tick),)*
                }
            }

            /// As [`Scripted::cost_max`].
            pub(crate) fn cost_max(&self) -> u64 {
                match self {
                    $(Limit::$word(limit) => limit.cost_max(),)*
                    $(Limit::$whole(limit) => limit.cost_max(),)*
                }
            }

            /// As [`Scripted::put_numbers`].
            pub(crate) fn put_numbers(&self, around: Time, put: &mut dyn FnMut(u64)) {
                match self {
                    $(Limit::$word(limit) => limit.put_numbers(around, put),)*
                    $(Limit::$whole(limit) => limit.put_numbers(around, put),)*
                }
            }

            /// As [`Algorithm::key_time`].
            pub fn key_time(&self, key_hash: u64, now: Time) -> Time {
                match self {
                    $(Limit::$word(limit) => limit.key_time(key_hash, now),)*
                    $(Limit::$whole(limit) => limit.key_time(key_hash, now),)*
                }
            }

            /// Whether every state of this limit fits one word.
            pub fn packs(&self) -> bool {
                match self {
                    $(Limit::$word(limit) => limit.packs(),)*
                    $(Limit::$whole(_) => false,)*
                }
            }

            /// Calls the visitor with the algorithm, if every state of this limit fits one word.
            #[inline]
            pub fn visit_packed<V: PackedVisitor>(&self, visitor: V) -> Option<V::Answer> {
                match self {
                    $(Limit::$word(limit) if limit.packs() => {
                        Some(visitor.visit(limit, shape(Kind::$word, limit.shape())))
                    })*
                    _ => None,
                }
            }

            /// As [`Limit::decide`] on the state that `word` stands for. What is to be stored is in the second
            /// part, where anything changed. A limit that does not pack reads every word as a key never seen.
            pub fn decide_word(&self, word: u64, ask: Ask) -> (Decision, Option<u64>) {
                match self {
                    $(Limit::$word(limit) if limit.packs() => {
                        let moment = limit.moment(ask.now);
                        (limit.decide_word(word, ask, moment), limit.next_word(word, ask, moment))
                    })*
                    _ => (self.decide(&mut self.fresh(), ask), None),
                }
            }

            /// As [`Packed::used_part`]; nothing for a limit that does not pack.
            pub fn used_part(&self, word: u64, now: Time) -> (u64, u64) {
                match self {
                    $(Limit::$word(limit) if limit.packs() => limit.used_part(word, now),)*
                    _ => (0, 1),
                }
            }

            /// As [`Limit::give_back`] on the state that `word` stands for.
            pub fn give_back_word(&self, word: u64, refund: Refund) -> u64 {
                match self {
                    $(Limit::$word(limit) if limit.packs() => {
                        let mut state = limit.unpack(word);
                        limit.give_back(&mut state, refund);
                        limit.pack(&state)
                    })*
                    _ => word,
                }
            }

            /// The state that `word` stands for.
            pub fn unpack(&self, word: u64) -> State {
                match self {
                    $(Limit::$word(limit) if limit.packs() => State::$word(limit.unpack(word)),)*
                    _ => self.fresh(),
                }
            }

            /// The word that stands for `state`, where the limit packs and the state is its own.
            pub fn pack(&self, state: &State) -> Option<u64> {
                match (self, state) {
                    $((Limit::$word(limit), State::$word(state)) if limit.packs() => Some(limit.pack(state)),)*
                    _ => None,
                }
            }
        }
    };
}

registry! {
    words: [TokenBucket, LeakyBucket, LeakyQueue, FixedWindow, SlidingWindow],
    wholes: [SubWindows, SlidingLog, Concurrency, Blocked]
}

impl Limit {
    /// Carries what a key has used over to this limit, when a rule changes: the state itself where it can be read
    /// with the new numbers (too large a state is trimmed when it is read), else the units used, up to all there are.
    #[must_use]
    pub fn adapt(&self, was: &Limit, state: &State, now: Time) -> State {
        if self.shape() == was.shape() {
            let mut state = state.clone();
            // Giving nothing back trims. A bucket trims to a moment, so that has to be written down once: trimmed again
            // at every reading, it would never come nearer.
            self.give_back(&mut state, Refund::at_once(0, now));
            return state;
        }
        self.with_used(was.used(state, now), now)
    }

    /// The most units that an unused key could have at once.
    pub fn capacity(&self) -> u64 {
        self.decide(&mut self.fresh(), Ask::peek(Cost::ZERO, Time::default())).limit
    }

    /// The state of a key that has used so many units, or all there are, at `now`.
    #[must_use]
    pub fn with_used(&self, units: u64, now: Time) -> State {
        let (mut state, capacity) = (self.fresh(), self.capacity());
        // Booked, because a queue has more places than it admits in one request.
        self.decide(&mut state, Ask::book(Cost::new(units.min(capacity)), now));
        state
    }
}

/// One number for an algorithm and the shape of its states. Multiplied so that equal numbers of different meaning
/// (a period, a calendar) do not meet by accident.
#[inline]
fn shape(kind: Kind, numbers: u64) -> u64 {
    (kind as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ numbers.wrapping_mul(0xd6e8_feb8_6659_fd93)
}
