//! Sliding window counter: two fixed windows, the previous one fading out.
//!
//! What was counted in the previous window weighs as much as the sliding window still overlaps it:
//! `P*(W-e) + (C+c)*W <= N*W`, in integers. Cheap, smooth for real traffic, and honest about its worst case:
//! at most `N*(1 + L/W)` in any interval `L <= W`, which an attacker at the boundary nearly reaches.
//!
//! ```text
//!        previous P            current C
//!   |--------------------|----------+---------|
//!                  <- sliding W ->  e
//! ```

use std::cmp::Ordering;

use crate::algorithm::Algorithm;
use crate::ask::{Ask, Intent, Refund};
use crate::decision::{Decision, Outcome};
use crate::error::LimitError;
use crate::rate::Rate;
use crate::script::{Script, Scripted, WINDOW_UNITS_MAX, product_fits, script, span_fits, span_in_ticks};
use crate::share::Share;
use crate::time::{Span, Tick, Time};
use crate::window::{Period, Window, Windows};
use crate::word::{Packed, WordLayout};

/// About N units in any period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlidingWindow {
    units: u64,
    period: Period,
    jittered: bool,
    layout: WordLayout,
}

/// What the current window and the one before it have counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Counts {
    start: Time,
    previous: u64,
    current: u64,
}

/// The counts as they stand at one moment.
#[derive(Clone, Copy)]
struct Sight {
    window: Window,
    previous: u64,
    current: u64,
    /// Time left of the window; what the sliding window still overlaps of the previous one.
    left: Span,
}

impl Sight {
    fn counts(&self) -> Counts {
        Counts { start: self.window.start, previous: self.previous, current: self.current }
    }
}

impl SlidingWindow {
    /// `rate`, estimated from two counters.
    pub fn new(rate: Rate) -> SlidingWindow {
        let layout = WordLayout::for_windows(&Windows::of(&rate));
        SlidingWindow { units: rate.units(), period: Period::new(rate.period()), jittered: false, layout }
    }

    /// Lets every key's windows begin at an offset of its own, so that not all keys reset at once.
    #[must_use]
    pub fn jittered(self) -> SlidingWindow {
        SlidingWindow { jittered: true, ..self }
    }

    fn count_max(&self) -> u64 {
        self.units.saturating_mul(2)
    }

    /// A caller whose clock lags behind the one who opened the window is taken to ask at its start. What comes from beyond
    /// the next window (a clock was set back) counts in the next.
    #[inline]
    fn sight(&self, state: &Counts, now: Time) -> Sight {
        let mut window = self.period.at(now);
        let (previous, current) = if state.start == window.start {
            (state.previous, state.current)
        } else if state.start > window.start {
            window = Window { start: window.end, end: window.end.plus(self.period.span()) };
            (state.previous, state.current)
        } else if state.start.plus(self.period.span()) == window.start {
            (state.current, 0)
        } else {
            (0, 0)
        };
        let left = window.end.since(now.max(window.start));
        self.sight_in(window, left, &Counts { start: window.start, previous, current })
    }

    #[inline]
    fn sight_in(&self, window: Window, left: Span, counts: &Counts) -> Sight {
        Sight {
            window,
            previous: counts.previous.min(self.count_max()),
            current: counts.current.min(self.count_max()),
            left,
        }
    }

    /// Whether the window can take `units` more: no division, for the sake of speed.
    #[inline]
    fn fits(&self, sight: &Sight, units: u64) -> bool {
        let faded = u128::from(sight.previous) * u128::from(sight.left.0);
        let room = self.units.checked_sub(sight.current).and_then(|room| room.checked_sub(units));
        room.is_some_and(|room| faded <= u128::from(room) * u128::from(self.period.span().0))
    }

    /// How many of the units asked for are counted.
    #[inline]
    fn counted(&self, sight: &Sight, ask: Ask, allowed: bool) -> u64 {
        if allowed && ask.takes() {
            ask.cost.units()
        } else if !allowed && ask.books() {
            ask.cost.units().min(self.count_max().saturating_sub(self.used_at(sight)))
        } else {
            0
        }
    }

    /// Units in use, what is left of the previous window's rounded up.
    #[inline]
    fn used_at(&self, sight: &Sight) -> u64 {
        self.period.share_up(sight.previous, sight.left).saturating_add(sight.current)
    }

    /// The decision, `sight` being what there is after it.
    #[inline]
    fn answer(&self, sight: &Sight, ask: Ask, allowed: bool) -> Decision {
        let outcome = if allowed { Outcome::ALLOWED } else { self.denial(sight, ask) };
        Decision {
            outcome,
            limit: self.units,
            remaining: self.units.saturating_sub(self.used_at(sight)),
            reset_after: Some(sight.window.end.since(ask.now)),
        }
    }

    #[cold]
    fn denial(&self, sight: &Sight, ask: Ask) -> Outcome {
        match ask.cost.units() {
            units if units > self.units => Outcome::Never,
            units => Outcome::NotNow { retry_after: self.retry_after(sight, units, ask.now) },
        }
    }

    fn retry_after(&self, sight: &Sight, units: u64, now: Time) -> Span {
        let asked_late = sight.window.start.since(now).0;
        let room = self.units - units; // The caller has made sure that the cost fits at all.
        let retry_ticks = if sight.current <= room {
            // The window can take it as soon as enough of the previous one has faded.
            let elapsed = self.period.span().0 - sight.left.0;
            self.period.fades_after(sight.previous, room - sight.current).0.saturating_sub(elapsed)
        } else {
            // Only the next window can, when enough of this one has faded there.
            sight.left.0 + self.period.fades_after(sight.current, room).0
        };
        Span(asked_late + retry_ticks)
    }

    /// The window that counts what is taken at a moment.
    pub(crate) fn window_at(&self, moment: Time) -> Window {
        self.period.at(moment)
    }

    /// The units of a period, and the period.
    pub(crate) fn units_per_period(&self) -> (u64, Span) {
        (self.units, self.period.span())
    }

    /// The limit of a node that has this share of the units.
    pub(crate) fn share(&self, share: Share) -> SlidingWindow {
        SlidingWindow { units: share.of(self.units), ..*self }
    }
}

impl Algorithm for SlidingWindow {
    type State = Counts;

    fn decide(&self, state: &mut Counts, ask: Ask) -> Decision {
        let mut sight = self.sight(state, ask.now);
        let allowed = self.fits(&sight, ask.cost.units());
        let counted = self.counted(&sight, ask, allowed);
        sight.current += counted;
        if counted > 0 || (ask.intent == Intent::Take && state.start > sight.window.start) {
            *state = sight.counts();
        }
        self.answer(&sight, ask, allowed)
    }

    fn give_back(&self, state: &mut Counts, refund: Refund) {
        let counted_in = self.period.at(refund.counted_at);
        // A state from ahead: the caller's clock lags, and what it took was counted there.
        let lags = state.start > self.period.at(refund.now).start;
        if lags || counted_in.start == state.start {
            state.current = state.current.saturating_sub(refund.units);
        } else if counted_in.end == state.start {
            state.previous = state.previous.saturating_sub(refund.units);
        }
    }

    fn used(&self, state: &Counts, now: Time) -> u64 {
        self.used_at(&self.sight(state, now))
    }

    fn expires_at(&self, state: &Counts) -> Time {
        if state.current > 0 {
            state.start.plus(self.period.span()).plus(self.period.span())
        } else if state.previous > 0 {
            state.start.plus(self.period.span())
        } else {
            Time::default()
        }
    }

    fn jitter(&self) -> Option<Span> {
        self.jittered.then_some(self.period.span())
    }

    fn shape(&self) -> u64 {
        (self.period.span().0 * 2) | u64::from(self.jittered)
    }
}

/// What a moment tells before any word is seen.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    window: Window,
    /// Time left of the window.
    left: Span,
    /// The high bits of words whose current window this is.
    open_head: u64,
}

impl Packed for SlidingWindow {
    type Moment = Moment;

    #[inline]
    fn moment(&self, now: Time) -> Moment {
        let window = self.period.at(now);
        let open_head = self.layout.head_for(window.end.plus(self.period.span()));
        Moment { window, left: window.end.since(now), open_head }
    }

    /// The window before counts as if nothing of it had faded.
    #[inline]
    fn used_part(&self, word: u64, _now: Time) -> (u64, u64) {
        let count_bits = self.layout.payload_bits() / 2;
        let counts = self.layout.payload(word);
        ((counts >> count_bits) + (counts & ((1 << count_bits) - 1)), self.units)
    }

    fn packs(&self) -> bool {
        self.count_max() < 1 << (self.layout.payload_bits() / 2)
    }

    #[inline]
    fn pack(&self, state: &Counts) -> u64 {
        let count_bits = self.layout.payload_bits() / 2;
        let relevant_until = state.start.plus(self.period.span()).plus(self.period.span());
        let count_max = (1 << count_bits) - 1;
        let (previous, current) = (state.previous.min(count_max), state.current.min(count_max));
        self.layout.join(relevant_until, current << count_bits | previous)
    }

    #[inline]
    fn unpack(&self, word: u64) -> Counts {
        match self.layout.split(word) {
            None => Counts::default(),
            Some((inside, _)) => {
                // The word is relevant until the window after the current one ends.
                let next = self.period.at(inside);
                self.counts(word, Time(next.start.0.saturating_sub(self.period.span().0)))
            }
        }
    }

    /// Nearly always, the window is open already and counting is an addition.
    #[inline(always)]
    #[allow(clippy::inline_always)] // As the method it stands for.
    fn next_word(&self, word: u64, ask: Ask, moment: Moment) -> Option<u64> {
        let Some(sight) = self.open(word, ask, moment) else {
            return self.next_word_by_decision(word, ask, moment);
        };
        let counts = ask.takes() && self.fits(&sight, ask.cost.units());
        counts.then(|| word + (ask.cost.units() << (self.layout.payload_bits() / 2)))
    }

    #[inline(always)]
    #[allow(clippy::inline_always)] // Shares its first half with the one above.
    fn decide_word_into(&self, decision: &mut Decision, word: u64, ask: Ask, moment: Moment) {
        let Some(mut sight) = self.open(word, ask, moment) else {
            return self.decide_word_seldom(decision, word, ask, moment);
        };
        let allowed = self.fits(&sight, ask.cost.units());
        sight.current += if allowed && ask.takes() { ask.cost.units() } else { 0 };
        *decision = self.answer(&sight, ask, allowed);
    }

    /// Only three windows matter: the one of `now`, the one before, and one that a faster clock has opened already.
    #[inline]
    fn unpack_at(&self, word: u64, moment: Moment) -> Counts {
        let Moment { window, open_head, .. } = moment;
        let head = self.layout.head(word);
        match head.cmp(&open_head) {
            Ordering::Equal => self.counts(word, window.start),
            Ordering::Greater => self.unpack(word),
            Ordering::Less if word != 0 && head == self.layout.head_for(window.end) => {
                self.counts(word, Time(window.start.0.saturating_sub(self.period.span().0)))
            }
            Ordering::Less => Counts::default(),
        }
    }
}

impl SlidingWindow {
    /// The counts of a word whose window is that of `ask`, for questions that book nothing.
    #[inline(always)]
    #[allow(clippy::inline_always)]
    fn open(&self, word: u64, ask: Ask, moment: Moment) -> Option<Sight> {
        let is_open = self.layout.head(word) == moment.open_head;
        let Moment { window, left, .. } = moment;
        (is_open && ask.intent != Intent::Book)
            .then(|| self.sight_in(window, left, &self.counts(word, window.start)))
    }

    #[cold]
    fn decide_word_seldom(&self, decision: &mut Decision, word: u64, ask: Ask, moment: Moment) {
        *decision = self.decide_word(word, ask, moment);
    }

    #[cold]
    fn next_word_by_decision(&self, word: u64, ask: Ask, moment: Moment) -> Option<u64> {
        let before = self.unpack_at(word, moment);
        let mut state = before;
        self.decide(&mut state, ask);
        (state != before).then(|| self.pack(&state))
    }

    #[inline]
    fn counts(&self, word: u64, start: Time) -> Counts {
        let count_bits = self.layout.payload_bits() / 2;
        let payload = self.layout.payload(word);
        Counts { start, current: payload >> count_bits, previous: payload & ((1 << count_bits) - 1) }
    }
}

static SCRIPT: Script = script!("SlidingWindow", "sliding_window.lua");

impl Scripted for SlidingWindow {
    const SCRIPT: Option<&'static Script> = Some(&SCRIPT);

    fn in_ticks(&self, tick: Tick) -> Result<SlidingWindow, LimitError> {
        let limit = SlidingWindow::new(Rate::new(self.units, span_in_ticks(self.period.span(), tick))?);
        Ok(if self.jittered { limit.jittered() } else { limit })
    }

    fn fits_script(&self, tick: Tick) -> bool {
        let period = self.period.span();
        // Two windows beyond the next, with a jitter behind them.
        let spans = period.0.checked_mul(4);
        self.units <= WINDOW_UNITS_MAX
            && product_fits(self.units, period)
            && spans.is_some_and(|spans| span_fits(Span(spans), tick))
    }

    fn cost_max(&self) -> u64 {
        self.count_max()
    }

    fn put_numbers(&self, _around: Time, put: &mut dyn FnMut(u64)) {
        put(self.units);
        put(self.period.span().0);
    }
}
