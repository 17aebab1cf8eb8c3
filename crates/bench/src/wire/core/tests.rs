//! What the kernel says about processes, read rightly.

use super::{CpuTime, ticks};

#[test]
fn a_name_with_brackets_and_spaces_is_passed_over() {
    let stat = "42 (a ) b) S 1 42 42 0 -1 4194560 100 0 0 0 77 33 0 0 20 0 1 0 100 1000 10";
    assert_eq!(ticks(stat), Some((77.0, 33.0)));
}

#[test]
fn what_has_come_since_is_told_in_parts() {
    let (before, after) = (CpuTime::at(1e6, 10.0, 20.0), CpuTime::at(3e6, 13.0, 21.0));
    let since = after.since(before);
    assert_eq!(since, CpuTime::at(2e6, 3.0, 1.0));
    assert!((since.user_part() - 0.75).abs() < 1e-9);
    assert_eq!(since.plus(before), after);
    assert!(CpuTime::default().user_part().abs() < 1e-9, "nothing has no parts");
}

#[test]
fn a_process_that_runs_has_been_on_a_core() {
    let time = CpuTime::of(std::process::id()).unwrap();
    assert!(time.total_ns > 0.0, "{time:?}");
    assert!(CpuTime::of(u32::MAX).is_err());
}

impl CpuTime {
    fn at(total_ns: f64, user_ticks: f64, system_ticks: f64) -> CpuTime {
        CpuTime { total_ns, user_ticks, system_ticks }
    }
}
