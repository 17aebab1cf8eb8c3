//! Plain scalars mean what the core schema of YAML 1.2 says.

use super::{Plain, plain};

#[test]
fn plain_scalars() {
    let cases = [
        ("", Plain::Null),
        ("~", Plain::Null),
        ("NULL", Plain::Null),
        ("nULL", Plain::Text),
        ("True", Plain::Boolean(true)),
        ("false", Plain::Boolean(false)),
        ("yes", Plain::Text),
        ("0", Plain::Whole(0)),
        ("-12", Plain::Whole(-12)),
        ("+12", Plain::Whole(12)),
        ("0x1F", Plain::Whole(31)),
        ("0o17", Plain::Whole(15)),
        ("0xg", Plain::Text),
        ("1_000", Plain::Text),
        ("-", Plain::Text),
        ("- 1", Plain::Text),
        ("99999999999999999999999999999999999999999", Plain::Whole(i128::MAX)),
        ("1.5", Plain::Float(1.5)),
        (".5", Plain::Float(0.5)),
        ("1e3", Plain::Float(1_000.0)),
        ("-.inf", Plain::Float(f64::NEG_INFINITY)),
        ("inf", Plain::Text),
        ("nan", Plain::Text),
        (".", Plain::Text),
        ("e5", Plain::Text),
        ("1.2.3", Plain::Text),
        ("10/min", Plain::Text),
    ];
    for (text, meaning) in cases {
        assert_eq!(plain(text), meaning, "{text}");
    }
    assert!(matches!(plain(".nan"), Plain::Float(number) if number.is_nan()));
}
