//! What lines up, and what a terminal must not obey.

use insta::assert_snapshot;

use super::*;

fn sample() -> Table {
    let mut table = Table::new(&[Column::Left("TENANT"), Column::Right("USED"), Column::Left("TIER")]);
    table.row(["acme", "7", "pro"]);
    table.row(["a-tenant-with-a-long-name", "1234567", ""]);
    table
}

#[test]
fn numbers_go_to_the_right_and_nothing_trails() {
    assert_snapshot!(sample().render(false), @"
    TENANT                        USED  TIER
    acme                             7  pro
    a-tenant-with-a-long-name  1234567
    ");
    assert!(sample().render(false).lines().all(|line| line.trim_end() == line));
}

#[test]
fn only_names_are_bold_and_only_if_asked() {
    let text = sample().render(true);
    assert!(text.starts_with("\x1b[1mTENANT"), "{text:?}");
    assert_eq!(text.matches('\x1b').count(), 2);
    assert!(!sample().render(false).contains('\x1b'));
}

#[test]
fn fields_have_no_line_of_names() {
    let mut table = Table::of_fields();
    table.row(["tenant", "acme"]);
    table.row(["overrides", ""]);
    assert_eq!(table.render(true), "tenant     acme\noverrides\n");
}

#[test]
fn columns_line_up_by_what_is_seen() {
    for (text, columns) in
        [("", 0), ("abc", 3), ("é", 1), ("e\u{301}", 1), ("東京", 4), ("🚦", 2), ("한글", 4)]
    {
        assert_eq!(width(text), columns, "{text}");
    }
    let mut table = Table::new(&[Column::Left("A"), Column::Left("B")]);
    table.row(["東京", "x"]);
    table.row(["abcd", "x"]);
    table.row(["e\u{301}", "x"]);
    let text = table.render(false);
    let before: Vec<usize> = text.lines().map(|line| width(line) - 1).collect();
    assert_eq!(before, [6, 6, 6, 6], "{text}");
}

#[test]
fn a_terminal_obeys_nothing_in_a_cell() {
    let mut table = Table::of_fields();
    table.row(["key", "a\x1b[2Jb\nc\td\u{202e}e\u{9b}f"]);
    let text = table.render(false);
    assert_eq!(text, "key  a\\u{1b}[2Jb\\u{a}c\\u{9}d\\u{202e}e\\u{9b}f\n");
}

#[test]
fn missing_cells_are_empty() {
    let mut table = Table::new(&[Column::Left("A"), Column::Right("B")]);
    table.row(["x"]);
    assert_eq!(table.render(false), "A  B\nx\n");
}
