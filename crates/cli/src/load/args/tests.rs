//! What is typed means what it says.

use std::time::Duration;

use tollgate_load::{Draw, Load, Pace, Protocol, Question};

use super::load;
use crate::load::command;

fn parsed(words: &[&str]) -> Load {
    let matches = command().try_get_matches_from([&["load"], words].concat());
    load(&matches.unwrap()).unwrap_or_else(|failure| panic!("{words:?}: {failure}"))
}

fn check_refused(words: &[&str]) {
    let matches = command().try_get_matches_from([&["load"], words].concat());
    assert!(matches.is_err_and(|error| error.use_stderr()), "{words:?}");
}

#[test]
fn nothing_asks_for_the_first_policy_of_the_repository() {
    let load = parsed(&[]);
    assert_eq!((load.protocol, load.address.as_str()), (Protocol::Http, "127.0.0.1:8080"));
    let key = "user:{key}".to_owned();
    assert_eq!(load.question, Question::Policy { name: "search-standard".to_owned(), key, cost: 1 });
    assert_eq!(
        (load.duration, load.keys.count, load.keys.draw),
        (Duration::from_secs(10), 1_000_000, Draw::Uniform)
    );
}

#[test]
fn rls_asks_for_descriptors() {
    let load = parsed(&["--protocol", "rls"]);
    assert_eq!(load.address, "127.0.0.1:8081");
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let descriptors = |domain: &str, descriptors: Vec<Vec<(String, String)>>, cost: u32| {
        Question::Descriptors { domain: domain.to_owned(), descriptors, cost }
    };
    assert_eq!(load.question, descriptors("shop", vec![vec![pair("customer", "{key}")]], 1));
    let load =
        parsed(&["--domain", "d", "--descriptor", "a=1,b={key}", "--descriptor", "c=x", "--cost", "3"]);
    let expected = vec![vec![pair("a", "1"), pair("b", "{key}")], vec![pair("c", "x")]];
    assert_eq!(load.question, descriptors("d", expected, 3));
}

#[test]
fn throttle_brings_its_numbers() {
    let load = parsed(&["--protocol", "resp", "--throttle", "15,30,60", "--key", "{key}", "--cost", "2"]);
    let words = ["CL.THROTTLE", "{key}", "15", "30", "60", "2"].map(str::to_owned).to_vec();
    assert_eq!(load.question, Question::Command { words, yes: Some(0) });
}

#[test]
fn numbers_may_be_short() {
    let load = parsed(&[
        "--rate",
        "2.5K",
        "--keys",
        "3M",
        "--warmup",
        "250ms",
        "--duration",
        "2m",
        "--address",
        ":90",
    ]);
    assert!(matches!(load.pace, Pace::Planned { per_second, .. } if (per_second - 2_500.0).abs() < 1e-9));
    assert_eq!((load.keys.count, load.warmup), (3_000_000, Duration::from_millis(250)));
    assert_eq!((load.duration, load.address.as_str()), (Duration::from_mins(2), "127.0.0.1:90"));
    assert_eq!(parsed(&["--rate", "max"]).pace, Pace::Max);
}

#[test]
fn what_means_nothing_is_refused() {
    for words in [
        &["--rate", "0"][..],
        &["--rate", "-1"],
        &["--rate", "inf"],
        &["--keys", "0"],
        &["--keys", "1.5"],
        &["--duration", "soon"],
        &["--batch", "0"],
        &["--protocol", "smtp"],
        &["--throttle", "1,2"],
        &["--domain", "d"],
        &["--policy", "p", "--domain", "d", "--descriptor", "a=b"],
    ] {
        check_refused(words);
    }
}
