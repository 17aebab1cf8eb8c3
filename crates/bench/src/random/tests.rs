//! The shapes of what is drawn, by counting.

use super::{Random, Zipf};

const DRAWS: u64 = 200_000;

#[test]
fn the_first_ranks_of_zipf_come_as_often_as_the_law_says() {
    let ranks = 1_000;
    let (zipf, mut random) = (Zipf::new(ranks), Random::new(1));
    let mut counts = vec![0_u64; ranks as usize];
    for _ in 0..DRAWS {
        counts[zipf.rank(&mut random) as usize] += 1;
    }
    let harmonic: f64 = (1..=ranks).map(|rank| 1.0 / rank as f64).sum();
    for rank in [1, 2, 3, 10] {
        let expected = DRAWS as f64 / (rank as f64 * harmonic);
        let counted = counts[rank - 1] as f64;
        assert!((counted / expected - 1.0).abs() < 0.06, "rank {rank}: {counted} instead of {expected}");
    }
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
