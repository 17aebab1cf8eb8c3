//! Which slot of a sketch weighs least: a binary heap that knows where everybody stands, so that one whose weight has grown can be moved.

/// Slots by weight, the lightest first.
#[derive(Debug, Default)]
pub(super) struct Heap {
    /// The slots in the order of the heap, and their weights.
    order: Vec<(usize, f64)>,
    /// Where in the order each slot stands.
    places: Vec<usize>,
}

impl Heap {
    pub(super) fn with_capacity(slots: usize) -> Heap {
        Heap { order: Vec::with_capacity(slots), places: Vec::with_capacity(slots) }
    }

    /// The slot that weighs least.
    pub(super) fn lightest(&self) -> Option<usize> {
        self.order.first().map(|&(slot, _)| slot)
    }

    /// What a slot weighs.
    pub(super) fn weight(&self, slot: usize) -> f64 {
        self.places.get(slot).map_or(0.0, |&place| self.order[place].1)
    }

    /// Adds the next slot.
    pub(super) fn push(&mut self, weight: f64) {
        let slot = self.places.len();
        self.places.push(slot);
        self.order.push((slot, weight));
        let mut place = slot;
        while place > 0 && self.order[place].1 < self.order[(place - 1) / 2].1 {
            self.swap(place, (place - 1) / 2);
            place = (place - 1) / 2;
        }
    }

    /// A slot weighs more than it did.
    pub(super) fn add(&mut self, slot: usize, weight: f64) {
        let Some(&(mut place)) = self.places.get(slot) else { return };
        self.order[place].1 += weight;
        loop {
            let children = (2 * place + 1)..(2 * place + 3).min(self.order.len());
            let lightest = children.min_by(|&one, &other| self.order[one].1.total_cmp(&self.order[other].1));
            let Some(child) = lightest.filter(|&child| self.order[child].1 < self.order[place].1) else {
                return;
            };
            self.swap(place, child);
            place = child;
        }
    }

    /// All weights are multiplied by this. A power of two changes nobody's place.
    pub(super) fn scale(&mut self, factor: f64) {
        for (_, weight) in &mut self.order {
            *weight *= factor;
        }
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.order.swap(one, other);
        for place in [one, other] {
            self.places[self.order[place].0] = place;
        }
    }
}
