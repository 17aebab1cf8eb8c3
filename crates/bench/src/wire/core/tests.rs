//! What the kernel says about processes, read rightly.

use super::{CpuTime, ticks};

#[test]
fn a_name_with_brackets_and_spaces_is_passed_over() {
    let stat = "42 (a ) b) S 1 42 42 0 -1 4194560 100 0 0 0 77 33 0 0 20 0 1 0 100 1000 10";
    assert_eq!(ticks(stat), Some((77.0, 33.0)));
}

#[test]
fn work_takes_time() {
    let before = CpuTime::of(std::process::id()).unwrap();
    let mut sum = 0_u64;
    let spent = loop {
        for number in 0..1_000_000_u64 {
            sum = std::hint::black_box(sum.wrapping_add(number));
        }
        let spent = CpuTime::of(std::process::id()).unwrap().since(before);
        if spent.total_ns > 50e6 {
            break spent;
        }
    };
    assert!(spent.user_part() > 0.5, "{spent:?}");
    assert_eq!(spent.plus(spent).since(spent), spent);
}
