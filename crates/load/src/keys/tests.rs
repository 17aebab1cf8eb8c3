//! Every way to choose keys stays within their number, and a seed repeats it.

use super::{Draw, Keys};

fn drawn(draw: Draw, seed: u64) -> Vec<u64> {
    let mut stream = Keys { count: 5, draw, seed }.stream();
    (0..1_000).map(|_| stream.next()).collect()
}

#[test]
fn all_keys_come_and_no_others() {
    for draw in [Draw::Uniform, Draw::Zipf(1.1), Draw::InOrder] {
        let mut keys = drawn(draw, 1);
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys, [0, 1, 2, 3, 4], "{draw:?}");
    }
}

#[test]
fn a_seed_repeats_what_was_drawn() {
    for draw in [Draw::Uniform, Draw::Zipf(1.1)] {
        assert_eq!(drawn(draw, 7), drawn(draw, 7), "{draw:?}");
        assert_ne!(drawn(draw, 7), drawn(draw, 8), "{draw:?}");
    }
}

#[test]
fn keys_in_order_begin_again_after_the_last() {
    assert_eq!(drawn(Draw::InOrder, 0)[..7], [0, 1, 2, 3, 4, 0, 1]);
}
