//! Once a minute, and no more.

use super::*;

#[test]
fn once_a_minute() {
    let (seldom, start) = (Seldom::default(), Time::from_ticks(1_800_000_000_000_000_000));
    let told = [0, 0, 59, 60, 60, 119, 500]
        .map(|s: u64| seldom.is_to_be_told(start.plus(Span::from_ticks(s * 1_000_000_000))));
    assert_eq!(told, [true, false, false, true, false, false, true]);
}
