//! What is said of a text.

#![allow(dead_code, unreachable_pub)]

use tollgate_policy::{DefaultAlgorithm, Source, read_all};

/// What is said of one file.
pub fn said(text: &str) -> String {
    said_of(&[("rules.yaml", text)])
}

/// What is said of a `rate_limit` with these lines.
pub fn said_of_limit(lines: &str) -> String {
    let lines = dedent(lines).trim_end().replace('\n', "\n    ");
    said(&format!("domain: shop\ndescriptors:\n- key: user\n  rate_limit:\n    {lines}\n"))
}

/// What is said of several files.
pub fn said_of(files: &[(&str, &str)]) -> String {
    let sources: Vec<_> = files.iter().map(|(name, text)| Source::new(*name, dedent(text))).collect();
    match read_all(&sources, DefaultAlgorithm::SlidingWindow) {
        Ok(_) => "(nothing is wrong)".to_owned(),
        Err(problems) => problems.to_string(),
    }
}

/// A text that was indented to stand in a test: the first line's indentation is taken from all lines.
pub fn dedent(text: &str) -> String {
    let Some(lines) = text.strip_prefix('\n') else { return text.to_owned() };
    let indentation: String = lines.chars().take_while(|c| *c == ' ').collect();
    let lines: Vec<_> =
        lines.split('\n').map(|line| line.strip_prefix(&indentation).unwrap_or(line)).collect();
    lines.join("\n").trim_end_matches(' ').to_owned()
}
