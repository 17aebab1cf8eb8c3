//! Figures as people read them.

use super::time;

#[test]
fn a_time_has_three_digits_and_its_unit() {
    for (nanoseconds, told) in [
        (0, "0.00 us"),
        (1_234, "1.23 us"),
        (99_960, "100.0 us"),
        (123_456, "123 us"),
        (1_500_000, "1.50 ms"),
        (45_678_000, "45.7 ms"),
        (2_000_000_000, "2.00 s"),
    ] {
        assert_eq!(time(nanoseconds), told);
    }
}
