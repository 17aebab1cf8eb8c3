//! Everything that fuzzers have found worth keeping, once more, without a fuzzer.

use std::fs;
use std::path::Path;

/// A corpus of fewer files was not found, or lost.
const FILES_MIN: usize = 24;

fn check(target: &str, feed: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut count = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display()); // Shown if it fails: the last is the one.
        feed(&fs::read(&path).unwrap());
        count += 1;
    }
    assert!(count >= FILES_MIN, "only {count} files in {}", folder.display());
}

#[test]
fn resp() {
    check("resp", super::resp);
}

#[test]
fn rls() {
    check("rls", super::rls);
}

#[test]
fn json() {
    check("json", super::json);
}

#[test]
fn yaml() {
    check("yaml", super::yaml);
}

#[test]
fn http_auth() {
    check("http_auth", super::http_auth);
}

#[test]
fn quick() {
    check("quick", super::quick);
}

#[test]
fn frames() {
    check("frames", super::frames);
}
