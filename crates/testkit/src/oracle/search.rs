//! Finding a boundary by asking on both sides of it.

/// The smallest number for which `holds`, given that it holds for every larger one too.
pub(super) fn first(holds: impl Fn(u128) -> bool) -> u128 {
    if holds(0) {
        return 0;
    }
    let mut fails = 0;
    let mut step = 1;
    while !holds(step) {
        assert!(step < 1 << 70, "nothing up to 2^70 holds: this would be denied for ever");
        fails = step;
        step *= 2;
    }
    bisect(fails, step, &holds)
}

/// The largest number up to `most` for which `holds`, given that it holds for every smaller one too; zero if for none.
pub(super) fn last_up_to(most: u128, holds: impl Fn(u128) -> bool) -> u128 {
    if holds(most) {
        return most;
    }
    bisect(0, most, &|number| !holds(number)).saturating_sub(1)
}

/// The smallest number of `(fails, holds_at]` for which `holds`; `fails` itself is not asked about.
fn bisect(mut fails: u128, mut holds_at: u128, holds: &dyn Fn(u128) -> bool) -> u128 {
    while holds_at - fails > 1 {
        let middle = fails + (holds_at - fails) / 2;
        if holds(middle) {
            holds_at = middle;
        } else {
            fails = middle;
        }
    }
    holds_at
}
