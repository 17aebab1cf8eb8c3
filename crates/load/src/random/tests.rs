//! The shapes of what is drawn, by counting.

use super::{Random, Zipf};

const DRAWS: u64 = 200_000;

/// The first ranks come as often as the law says.
fn check_zipf(exponent: f64) {
    let ranks = 1_000;
    let (zipf, mut random) = (Zipf::new(ranks, exponent), Random::new(1));
    let mut counts = vec![0_u64; ranks as usize];
    for _ in 0..DRAWS {
        counts[zipf.rank(&mut random) as usize] += 1;
    }
    let total: f64 = (1..=ranks).map(|rank| (rank as f64).powf(-exponent)).sum();
    for rank in [1, 2, 3, 10] {
        let expected = DRAWS as f64 * (rank as f64).powf(-exponent) / total;
        let counted = counts[rank - 1] as f64;
        let error = (counted / expected - 1.0).abs();
        assert!(error < 0.06, "exponent {exponent}, rank {rank}: {counted} instead of {expected}");
    }
}

#[test]
fn ranks_follow_zipf_with_any_exponent() {
    for exponent in [0.5, 0.99, 1.0, 1.000_000_1, 1.1, 2.0] {
        check_zipf(exponent);
    }
}

#[test]
fn a_single_rank_is_drawn_always() {
    let (zipf, mut random) = (Zipf::new(1, 1.1), Random::new(4));
    assert!((0..1_000).all(|_| zipf.rank(&mut random) == 0));
}

#[test]
fn gaps_have_the_mean_they_were_asked_for() {
    let mut random = Random::new(2);
    let mean = (0..DRAWS).map(|_| random.exponential(3.0)).sum::<f64>() / DRAWS as f64;
    assert!((mean - 3.0).abs() < 0.05, "{mean}");
}

#[test]
fn a_number_stays_below_its_bound() {
    let mut random = Random::new(3);
    assert!((0..DRAWS).all(|_| random.below(7) < 7));
}
