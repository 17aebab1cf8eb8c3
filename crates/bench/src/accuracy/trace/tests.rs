//! Traces are read as documented, and what is wrong with one is said with its line.

use std::fs;
use std::path::PathBuf;

use super::{TraceError, token_log, web_log};
use crate::accuracy::traffic::Traffic;

type Reader = fn(&std::path::Path) -> Result<Traffic, TraceError>;

const WEB: Reader = |path| web_log(path, 1);
const TOKENS: Reader = |path| token_log(path);

/// Reads `content` from a file of its own.
fn read(name: &str, reader: Reader, content: &str) -> (PathBuf, Result<Traffic, TraceError>) {
    let path = std::env::temp_dir().join(format!("tollgate-bench-{}-{name}", std::process::id()));
    fs::write(&path, content).expect("a writable directory for temporary files");
    let traffic = reader(&path);
    fs::remove_file(&path).expect("the file just written");
    (path, traffic)
}

fn check_error(name: &str, reader: Reader, content: &str, expected: &str) {
    let (path, traffic) = read(name, reader, content);
    let message = traffic.err().expect("an error").to_string();
    assert_eq!(message, expected.replace("FILE", &path.display().to_string()));
}

#[test]
fn a_web_log_has_a_key_per_host() {
    let content = "host\tlogname\ttime\tmethod\na\t-\t100\tGET\nb\t-\t100\tGET\na\t-\t101\tGET\n";
    let traffic = read("web", WEB, content).1.expect("a good log");
    assert_eq!((traffic.keys, traffic.arrivals.len(), traffic.rate.units()), (2, 3, 10));
    assert!(traffic.arrivals.iter().all(|arrival| arrival.at.ticks() / 1_000_000_000 / 100 == 1));
}

#[test]
fn tokens_are_held_to_their_mean() {
    let content = "TIMESTAMP,ContextTokens,GeneratedTokens\n\
                   2023-11-16 18:15:00.0000000,100,20\n2023-11-16 18:17:00.5,70,50\n";
    let traffic = read("tokens", TOKENS, content).1.expect("a good log");
    assert_eq!(traffic.rate.units(), 119);
    assert_eq!(traffic.arrivals[0].at.ticks(), 1_700_158_500_000_000_000);
    assert_eq!(traffic.arrivals[1].cost.units(), 120);
}

#[test]
fn errors_name_the_line() {
    check_error(
        "bad-web",
        WEB,
        "host\tlogname\ttime\na\t-\t1\nb\t-\tnoon\n",
        "FILE:3: column 3 (Unix seconds) is not a whole number: \"noon\"",
    );
    check_error(
        "bad-tokens",
        TOKENS,
        "t,c,g\n2023-11-16 18:15:00,5\n",
        "FILE:2: column 3 (generated tokens) is missing",
    );
    check_error("empty", TOKENS, "t,c,g\n", "FILE has no arrivals");
}

#[test]
fn a_missing_file_is_said_so() {
    let error = web_log(std::path::Path::new("nowhere.tsv"), 1).err().expect("an error");
    assert!(error.to_string().starts_with("cannot read nowhere.tsv: "), "{error}");
}
