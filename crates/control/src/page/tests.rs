//! How many rows fit.

use super::*;
use crate::driver::Cell;

fn check(bytes: &[usize], rows_max: usize, expected: (usize, bool)) {
    let cells = |(at, bytes): (usize, &usize)| {
        [at, *bytes].map(|number| Cell::Integer(i64::try_from(number).unwrap()))
    };
    let sized: Vec<Row> = bytes.iter().enumerate().map(|each| Row::of(cells(each).into())).collect();
    let fit = fit(&sized, rows_max);
    assert_eq!((fit.rows, fit.has_more), expected, "{bytes:?} {rows_max}");
    assert_eq!(fit.last, Version::try_from(expected.0.saturating_sub(1)).unwrap());
}

#[test]
fn rows_and_bytes_are_bounded_and_one_row_always_fits() {
    const HALF: usize = PAGE_BYTES_MAX / 2 - ROW_BYTES;
    check(&[], 10, (0, false));
    check(&[1, 1, 1], 3, (3, false));
    check(&[1, 1, 1], 2, (2, true));
    check(&[HALF, HALF], 10, (2, false));
    check(&[HALF, HALF + 1], 10, (1, true));
    check(&[HALF, HALF, 1], 10, (2, true));
    check(&[10 * HALF, 1], 10, (1, true));
    check(&[10 * HALF], 10, (1, false));
    check(&[usize::MAX / 4; 3], 10, (1, true));
    check(&[1, 1], 0, (0, true));
}

#[test]
fn what_is_no_number_is_taken_for_nothing() {
    let sized = [Row::of(vec![Cell::Null, Cell::Text("x".to_owned())]), Row::of(Vec::new())];
    assert_eq!(fit(&sized, 10), Fit { rows: 2, has_more: false, last: 0 });
}
