//! Files of settings: names and values, or everything that is wrong with them.

#![allow(clippy::unwrap_used)]

use tollgate_policy::{Source, read_flat};

const KNOWN: [&str; 2] = ["http", "workers"];

fn check(text: &str, expected: &[(&str, &str)]) {
    let entries = read_flat(&Source::new("tollgate.yaml", text), &KNOWN).unwrap();
    let found: Vec<_> = entries.iter().map(|entry| (&*entry.key, &*entry.text)).collect();
    assert_eq!(found, expected, "{text:?}");
}

#[test]
fn names_and_values() {
    check("http: off\n# a comment\nworkers: 2\n", &[("http", "off"), ("workers", "2")]);
    check("\u{feff}http: \"off\"", &[("http", "off")]);
}

#[test]
fn a_file_may_say_nothing() {
    for text in ["", " \n", "# a comment\n\n# another", "\u{feff}", "\u{feff}# a comment", "...\n"] {
        check(text, &[]);
    }
}

#[test]
fn what_is_wrong_with_a_value_is_told_on_one_line() {
    let entries = read_flat(&Source::new("tollgate.yaml", "workers: \"\\e[31m\\n\""), &KNOWN).unwrap();
    let told = entries[0].problem(format!("{} is no number", entries[0].text), "write one").to_string();
    assert!(told.starts_with("tollgate.yaml:1:10: \\u{1b}[31m\\n is no number\n"), "{told}");
}
