//! How many nodes there are, as one of them sees it, and whether the others count it too.
//!
//! Every node tells the authority once in an *interval* that it is there, and learns how many have told of late. Each may have its part of what is out in
//! leases, so two things have to hold whatever is lost or late:
//! - who joins asks for nothing before all others know, and until what they were granted before has ended;
//! - who is gone is counted until what it was granted has ended.
//!
//! While the authority is away the last number holds, and it holds on for a while after: an authority that has forgotten everybody counts one at
//! first, and who believed it would have everything alone. All spans here are counts of intervals; a lease lives for ten of them.

use tollgate_core::{Span, Time};

/// A node that has not told for so long is gone.
pub const PRESENT_FOR: u32 = 5;
/// An answer is good for so long: who gets no newer one stops leasing.
const FRESH_FOR: u32 = 3;
/// So many answers in a row have to be smaller than what is believed before it is given up. By then whoever is gone has nothing left: it was [present](PRESENT_FOR)
/// before, it may have leased while its last answer was fresh, and a lease lives for ten.
const SMALLER_MIN: u32 = 11;
/// Who joins waits for so many answers: others may lease by an older number while that is fresh, and what they lease lives for ten.
const JOINING: u32 = 15;
/// Who had no answer for longer than this may be counted as gone, and joins anew.
const ABSENCE_MAX: u32 = 10;

/// What the authority says to a node that tells it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// How many have told of late, this node among them.
    pub nodes: u32,
    /// For how long somebody was always there.
    pub kept_for: Span,
}

/// The nodes, as one of them sees them.
#[derive(Clone, Debug)]
pub struct Census {
    interval: Span,
    nodes: u32,
    /// How many answers in a row were smaller than what is believed, and the largest of them.
    smaller: u32,
    largest: u32,
    /// How many answers are still to be waited for.
    waits: u32,
    /// When the last question was sent that has an answer.
    answered_at: Option<Time>,
}

impl Census {
    /// A node that has just begun to tell, once in every interval.
    pub fn new(interval: Span) -> Census {
        Census { interval, nodes: 1, smaller: 0, largest: 0, waits: JOINING, answered_at: None }
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Until when all others count this node, if they do.
    pub fn is_counted_until(&self) -> Option<Time> {
        self.answered_at.filter(|_| self.waits == 0).map(|at| at.plus(self.span(FRESH_FOR)))
    }

    /// The authority has answered what was sent at a moment, or has not.
    pub fn tell(&mut self, sent_at: Time, answer: Option<Counted>) {
        let Some(Counted { nodes, kept_for }) = answer else { return self.believe(None) };
        let absence = self.answered_at.map_or(Span::ZERO, |at| sent_at.since(at));
        // If nobody was there for some time of it, it was the authority that was away, and nobody has counted.
        if absence > self.span(ABSENCE_MAX) && kept_for >= absence {
            self.waits = JOINING;
        }
        self.waits = self.waits.saturating_sub(1);
        self.answered_at = Some(sent_at);
        self.believe(Some(nodes));
    }

    /// A larger number is believed at once, a smaller one when it stays.
    fn believe(&mut self, counted: Option<u32>) {
        let Some(counted) = counted.filter(|&counted| counted < self.nodes) else {
            (self.smaller, self.largest) = (0, 0);
            self.nodes = counted.unwrap_or(self.nodes);
            return;
        };
        self.smaller += 1;
        self.largest = self.largest.max(counted);
        if self.smaller >= SMALLER_MIN {
            self.nodes = self.largest.max(1);
            (self.smaller, self.largest) = (0, 0);
        }
    }

    fn span(&self, intervals: u32) -> Span {
        Span::from_ticks(self.interval.ticks().saturating_mul(intervals.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const ALWAYS: Span = Span::from_ticks(3_600 * SECOND);

    fn at(seconds: u64) -> Time {
        Time::from_ticks((1_700_000_000 + seconds) * SECOND)
    }

    /// One that is counted, as of the fourteenth second.
    fn counted(nodes: u32) -> Census {
        let mut census = Census::new(Span::from_ticks(SECOND));
        for second in 0..15 {
            assert_eq!(census.is_counted_until(), None, "{second}");
            census.tell(at(second), Some(Counted { nodes, kept_for: ALWAYS }));
        }
        census
    }

    /// What is believed after each of these answers, where three nodes were believed.
    fn check(answers: &[Option<u32>], believed: &[u32]) {
        let mut census = counted(3);
        let mut after = |(second, nodes): (usize, &Option<u32>)| {
            let answer = nodes.map(|nodes| Counted { nodes, kept_for: ALWAYS });
            census.tell(at(15 + second as u64), answer);
            census.nodes()
        };
        assert_eq!(answers.iter().enumerate().map(&mut after).collect::<Vec<_>>(), believed, "{answers:?}");
    }

    #[test]
    fn a_smaller_number_is_believed_when_it_stays() {
        check(&[Some(2); 12], &[3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 2, 2]);
        // As many as were there at any time.
        check(&[1, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1].map(Some), &[3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 2]);
    }

    #[test]
    fn a_larger_number_is_believed_at_once() {
        check(&[Some(4), Some(9)], &[4, 9]);
        check(&[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 1, 1].map(Some), &[3; 13]);
    }

    #[test]
    fn what_was_counted_before_the_authority_was_away_does_not_count() {
        check(&[None; 20], &[3; 20]);
        let mut answers = [Some(1); 16];
        answers[4] = None;
        assert_eq!(answers.iter().flatten().count(), 15);
        check(&answers, &[3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 1]);
    }

    #[test]
    fn an_answer_is_good_for_three_intervals() {
        let mut census = counted(2);
        assert_eq!(census.is_counted_until(), Some(at(14 + 3)));
        census.tell(at(15), None);
        assert_eq!(census.is_counted_until(), Some(at(14 + 3)));
        census.tell(at(16), Some(Counted { nodes: 2, kept_for: ALWAYS }));
        assert_eq!(census.is_counted_until(), Some(at(16 + 3)));
    }

    #[test]
    fn who_was_away_alone_joins_anew() {
        let counted_after = |absence: u64, kept_for: Span| {
            let mut census = counted(2);
            census.tell(at(14 + absence), Some(Counted { nodes: 2, kept_for }));
            census.is_counted_until().is_some()
        };
        assert!(counted_after(10, ALWAYS), "others still count it");
        assert!(!counted_after(11, ALWAYS));
        assert!(counted_after(60, Span::from_ticks(5 * SECOND)), "all were away");
        assert!(!counted_after(60, Span::from_ticks(60 * SECOND)));
    }
}
