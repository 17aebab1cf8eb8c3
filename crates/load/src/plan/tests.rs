//! Plans have the promised number of moments, at the promised distances.

use std::time::Duration;

use super::{Arrivals, Extent, Moment, Plan};

fn plan(per_second: f64, arrivals: Arrivals, batch: u32, requests_max: u64) -> Plan {
    Plan::new(per_second, arrivals, batch, Extent { duration: Duration::from_secs(2), requests_max, seed: 1 })
}

#[test]
fn uniform_moments_are_equally_far_apart() {
    let moments: Vec<Moment> = plan(4.0, Arrivals::Uniform, 1, u64::MAX).collect();
    let at_ms: Vec<u64> = moments.iter().map(|moment| moment.at_ns / 1_000_000).collect();
    assert_eq!(at_ms, [0, 250, 500, 750, 1_000, 1_250, 1_500, 1_750]);
}

#[test]
fn a_batch_comes_as_much_later_as_it_is_larger() {
    let moments: Vec<Moment> = plan(100.0, Arrivals::Uniform, 50, u64::MAX).collect();
    let batch = |at_ms: u64| Moment { at_ns: at_ms * 1_000_000, requests: 50 };
    assert_eq!(moments, [batch(0), batch(500), batch(1_000), batch(1_500)]);
}

#[test]
fn the_last_batch_holds_what_is_left() {
    let requests: Vec<u64> = plan(1e6, Arrivals::Uniform, 4, 10).map(|moment| moment.requests).collect();
    assert_eq!(requests, [4, 4, 2]);
}

#[test]
fn poisson_moments_have_the_rate_and_all_gaps() {
    let at_ns: Vec<u64> = plan(50_000.0, Arrivals::Poisson, 1, u64::MAX).map(|moment| moment.at_ns).collect();
    assert!((97_000..103_000).contains(&at_ns.len()), "{} in two seconds", at_ns.len());
    // Of exponential gaps with a mean of 20 us, e^-2 or 13.5 % are longer than 40 us.
    let long = at_ns.windows(2).filter(|pair| pair[1] - pair[0] > 40_000).count();
    assert!((12_000..15_000).contains(&long), "{long} long gaps");
}

#[test]
fn a_rate_that_no_nanosecond_divides_is_kept() {
    for per_second in [3.0, 7.0, 11.0, 99_999.0] {
        let moments = plan(per_second, Arrivals::Uniform, 1, u64::MAX).count() as f64;
        assert_eq!(moments.to_string(), (2.0 * per_second).to_string());
    }
}

#[test]
fn a_copy_says_the_same() {
    let original = plan(1_000.0, Arrivals::Poisson, 3, u64::MAX);
    assert_eq!(original.clone().collect::<Vec<_>>(), original.collect::<Vec<_>>());
}
