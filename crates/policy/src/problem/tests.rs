//! Excerpts keep their caret in place whatever the line holds.

use super::{Mark, Page, Problem, Problems, message, quote};

/// Checks the two lines that show a place.
fn check(text: &str, (line, column, width): (u32, u32, u32), line_shown: &str, carets: &str) {
    let position = Page::new("f", text).position(Mark { line, column, width });
    let shown = Problem::new(position, "wrong").to_string();
    let lines: Vec<_> =
        shown.lines().skip(2).map(|line| line.split_once(" | ").map_or("", |(_, rest)| rest)).collect();
    assert_eq!(lines, [line_shown, carets], "{text:?}");
}

#[test]
fn plain_lines() {
    check("a: b\nc: d", (2, 4, 1), "c: d", "   ^");
    check("a: b\r\nc: d\r\n", (2, 1, 4), "c: d", "^^^^");
    check("a: b\rc: d", (2, 1, 1), "c: d", "^");
}

#[test]
fn places_beyond_the_text() {
    check("a: b", (1, 99, 9), "a: b", "    ^");
    check("a: b\n", (7, 1, 1), "a: b", "    ^");
    check("", (3, 3, 3), "", "^");
    check("a: b", (0, 0, 0), "a: b", "^");
    check("a: b", (1, 4, u32::MAX), "a: b", "   ^");
}

#[test]
fn tabs_and_control_characters() {
    check("\tk: v", (1, 2, 1), "    k: v", "    ^");
    check("\u{1b}[31mk", (1, 6, 1), "\\u{1b}[31mk", "          ^");
    check("\u{202e}k", (1, 2, 1), "\\u{202e}k", "        ^");
    check("ü: é", (1, 4, 1), "ü: é", "   ^");
}

#[test]
fn long_lines() {
    let line = format!("{}k{}", "ä".repeat(1_000), "b".repeat(1_000));
    let shown = format!("...{}k{}...", "ä".repeat(30), "b".repeat(66));
    check(&line, (1, 1_001, 1), &shown, &format!("{}^", " ".repeat(33)));
    check(&line, (1, 1, 1), &format!("{}...", "ä".repeat(100)), "^");
    check(&line, (1, 1_001, 500), &shown, &format!("{}{}", " ".repeat(33), "^".repeat(67)));
}

#[test]
fn quotes_are_short_and_on_one_line() {
    assert_eq!(quote("a\tb\nc\u{0}"), "`a\\tb\\nc\\u{0}`");
    assert_eq!(quote(&"x".repeat(60)), format!("`{}`", "x".repeat(60)));
    assert_eq!(quote(&"x".repeat(61)), format!("`{}...`", "x".repeat(60)));
    assert_eq!(quote(&"\u{12}".repeat(61)), format!("`{}...`", "\\u{12}".repeat(10)));
}

#[test]
fn messages_are_on_one_line() {
    assert_eq!(message("\"\u{1b}[31m\n\" is not a number"), "\"\\u{1b}[31m\\n\" is not a number");
    assert_eq!(message(&"x".repeat(201)), format!("{}...", "x".repeat(200)));
}

#[test]
fn problems_are_sorted_and_told_once() {
    let page = Page::new("f", "a\nb\nc");
    let at = |line| Problem::new(page.position(Mark { line, column: 1, width: 1 }), "wrong");
    let mut problems = Problems::new();
    for line in [3, 1, 2, 3, 1] {
        problems.push(at(line));
    }
    let lines: Vec<_> = problems.iter().map(|problem| problem.position.line).collect();
    assert_eq!(lines, [1, 2, 3]);
    assert_eq!(problems.len(), 3);
}

#[test]
fn what_is_not_kept_is_counted() {
    let text = "x\n".repeat(200);
    let page = Page::new("f", &text);
    let mut problems = Problems::new();
    for line in 1..=Problems::KEPT_MAX + 1 {
        let mark = Mark { line: u32::try_from(line).unwrap(), column: 1, width: 1 };
        problems.push(Problem::new(page.position(mark), "wrong"));
    }
    assert_eq!(problems.len(), Problems::KEPT_MAX + 1);
    assert!(problems.to_string().ends_with("\n\nand 1 more problem"));
}

#[test]
fn what_would_not_be_kept_need_not_be_worded() {
    let text = "x\n".repeat(200);
    let page = Page::new("f", &text);
    let mut problems = Problems::new();
    for line in 1..=100 {
        assert!(!problems.only_counts("f", line, 1));
        problems.push(Problem::new(page.position(Mark { line, column: 1, width: 1 }), "wrong"));
    }
    assert!(!problems.only_counts("f", 50, 1), "it would push another out");
    assert!(!problems.only_counts("e", 150, 1), "it would push another out");
    assert!(problems.only_counts("f", 101, 1));
    assert_eq!(problems.len(), 101);
}
