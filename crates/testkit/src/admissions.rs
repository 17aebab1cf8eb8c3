//! What was admitted, seen from outside: how much of it falls together at worst, over every interval.
//!
//! Whoever asks knows of an admission only that it was decided between its question and its answer. So one counts towards an interval if all
//! of that lies inside: what is found is never more than what happened, and less by what was on its way at the ends at most.

/// Units that were admitted at some moment from one to the other, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Not before this moment.
    pub from_us: u64,
    /// Not after this one.
    pub to_us: u64,
    /// How many.
    pub units: u64,
}

/// All admissions of one key.
#[derive(Clone, Debug, Default)]
pub struct Admissions {
    /// In the order in which they were known.
    by_end: Vec<Admission>,
}

impl Admissions {
    /// How many units were admitted.
    pub fn units(&self) -> u64 {
        self.by_end.iter().map(|admission| admission.units).sum()
    }

    /// In the order in which they were known.
    pub fn iter(&self) -> impl Iterator<Item = Admission> {
        self.by_end.iter().copied()
    }

    /// The most units within one interval of this length, which it does not reach.
    pub fn most_within(&self, length_us: u64) -> u64 {
        self.worst(|units, span_us| if span_us < length_us { units } else { 0 })
    }

    /// The smallest burst of a bucket, with one unit in so many microseconds, that admits all this: over every interval, what was admitted less
    /// what has come back in it.
    pub fn least_burst(&self, interval_us: u64) -> u64 {
        self.worst(|units, span_us| units.saturating_sub(span_us / interval_us))
    }

    /// The largest of what intervals are worth: every one that begins with an admission and ends with one is looked at.
    fn worst(&self, worth: impl Fn(u64, u64) -> u64) -> u64 {
        let worst_from = |from_us: u64| {
            let first = self.by_end.partition_point(|admission| admission.to_us < from_us);
            let (mut units, mut worst) = (0, 0);
            for admission in self.by_end[first..].iter().filter(|admission| admission.from_us >= from_us) {
                units += admission.units;
                worst = worst.max(worth(units, admission.to_us - from_us));
            }
            worst
        };
        self.by_end.iter().map(|admission| worst_from(admission.from_us)).max().unwrap_or(0)
    }
}

impl FromIterator<Admission> for Admissions {
    fn from_iter<I: IntoIterator<Item = Admission>>(admissions: I) -> Admissions {
        let mut by_end: Vec<Admission> = admissions.into_iter().collect();
        by_end.sort_by_key(|admission| admission.to_us);
        Admissions { by_end }
    }
}

#[cfg(test)]
mod tests;
