//! What the house style asks of every file, as far as a machine can see it.
#![allow(clippy::unwrap_used)] // A test stops at the first surprise.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const LINES_MAX: usize = 600;

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Every source file of the workspace that does not pass.
fn check(passes: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    sources(&crates, &mut files);
    assert!(files.len() > 50, "only {} files found under {}", files.len(), crates.display());
    files.into_iter().filter(|file| !passes(&fs::read_to_string(file).unwrap())).collect()
}

#[test]
fn every_module_opens_with_the_problem_it_solves() {
    let silent = check(|text| text.starts_with("//!"));
    assert!(silent.is_empty(), "no `//!` at the top: {silent:#?}");
}

#[test]
fn every_file_has_one_subject() {
    let long = check(|text| text.lines().count() <= LINES_MAX);
    assert!(long.is_empty(), "more than {LINES_MAX} lines: {long:#?}");
}

#[test]
fn nothing_is_left_for_later() {
    // Put together here, so that this file does not find itself.
    let marks =
        [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("unimpl", "emented!"), concat!("#[ign", "ore")];
    let unfinished = check(|text| !marks.iter().any(|mark| text.contains(mark)));
    assert!(unfinished.is_empty(), "left for later: {unfinished:#?}");
}

/// The first line of the README: `cargo run --release -- serve`. Where several programs could be meant, one has to be named.
#[test]
fn cargo_run_means_the_server() {
    let told = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    let named: Vec<&str> =
        told.split("\"default_run\":").skip(1).filter(|rest| rest.starts_with('"')).collect();
    assert_eq!(named.len(), 1, "so many programs are named as the one that is meant");
    assert!(named[0].starts_with("\"tollgate\""));
}
