//! What is kept, and what is not, at the bound.

use super::*;

fn fields(bytes_max: usize, sent: &[(&str, &str)]) -> Fields {
    let mut fields = Fields::new(bytes_max);
    push_all(&mut fields, sent);
    fields
}

fn push_all(fields: &mut Fields, sent: &[(&str, &str)]) {
    for (name, value) in sent {
        fields.push(Field::new([*name, *value].concat().as_bytes(), name.len()));
    }
}

#[track_caller]
fn check(fields: &Fields, kept: &[(&str, &str)], is_too_long: bool) {
    let expected: Vec<_> = kept.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
    assert_eq!(fields.iter().collect::<Vec<_>>(), expected);
    assert_eq!(fields.len(), kept.len());
    assert_eq!(fields.is_empty(), kept.is_empty());
    assert_eq!(fields.is_too_long(), is_too_long);
}

#[test]
fn names_and_values_in_their_order() {
    let sent = [("b", "2"), ("a", ""), ("", "1"), ("", ""), ("b", "2")];
    check(&fields(1000, &sent), &sent, false);
    check(&fields(1000, &[]), &[], false);
}

#[test]
fn the_bound_is_name_and_value_and_32_each() {
    let sent = [("name", "value"), ("n", "v")];
    check(&fields(75, &sent), &sent, false);
    check(&fields(74, &sent), &sent[..1], true);
    check(&fields(40, &sent), &[], true);
    check(&fields(0, &[]), &[], false);
    check(&fields(0, &[("", "")]), &[], true);
}

#[test]
fn after_one_that_was_too_much_none_is_kept() {
    check(&fields(80, &[("a", "1"), ("long", "value of some length"), ("b", "2")]), &[("a", "1")], true);
}

#[test]
fn emptied_it_is_as_new() {
    let mut fields = fields(40, &[("a", "1"), ("b", "2")]);
    fields.clear();
    check(&fields, &[], false);
    push_all(&mut fields, &[("c", "3")]);
    check(&fields, &[("c", "3")], false);
}
