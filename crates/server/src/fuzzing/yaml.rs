//! Files of rules and of settings: what is wrong with one is told, and what is right works.

use std::cell::LazyCell;
use std::net::SocketAddr;

use tollgate::core::Time;
use tollgate::policy::{
    DefaultAlgorithm, Entry, Level, Position, Problems, Snapshot, Source, Values, read_all, read_flat,
};
use tollgate::{Descriptor, Engine, Request, RequestError, Ruling, Subject, Verdict};

use super::{check_field, engine_settings};
use crate::headers::{self, Wanted};
use crate::settings::{SETTINGS, Settings};

/// A line that ends one version of the rules; the next one then takes its place, as in a server that runs.
const NEXT_VERSION: &str = "\n=====\n";
/// The first versions are read, whatever comes after them.
const VERSIONS_MAX: usize = 3;
/// So many rules are asked.
const ASKED_MAX: usize = 16;
/// Long before a server decides anything, an ordinary moment, and the last.
const TIMES: [Time; 3] = [Time::from_ticks(0), Time::from_ticks(1_800_000_000_000_000_000), Time::MAX];
const COSTS: [u64; 4] = [1, 0, 1_000, u64::MAX];
/// Longer lines are cut.
const SHOWN_CHARS_MAX: usize = 1_000;

/// A text of rules or of settings.
pub fn yaml(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    check_settings(&text);
    let engine = LazyCell::new(|| Engine::new(engine_settings()).expect("a small engine can be made"));
    for (text, now) in text.split(NEXT_VERSION).take(VERSIONS_MAX).zip(TIMES) {
        match read_all(&[Source::new("rules.yaml", text)], DefaultAlgorithm::default()) {
            Ok(rules) => {
                assert!(!rules.is_empty(), "nothing is wrong, and nothing was read");
                engine.install(rules, now);
                ask_all(&engine, &engine.snapshot().expect("rules that were installed are there"));
            }
            Err(problems) => check_problems(&problems, text),
        }
    }
}

fn check_settings(text: &str) {
    let known: Vec<&str> = SETTINGS.iter().map(|setting| setting.name).collect();
    match read_flat(&Source::new("tollgate.yaml", text), &known) {
        Ok(entries) => {
            let mut settings = Settings::default();
            for entry in entries.iter().filter(|entry| !asks_the_network(&entry.key, &entry.text)) {
                if let Err(error) = settings.set(&entry.key, &entry.text) {
                    check_problems(&entry.problem(error.to_string(), "read the documents").into(), text);
                }
            }
        }
        Err(problems) => check_problems(&problems, text),
    }
}

/// Whether an address has a name in it, for which a resolver would be asked.
fn asks_the_network(name: &str, text: &str) -> bool {
    let takes_address = SETTINGS.iter().any(|setting| setting.name == name && setting.value_name == "ADDR");
    takes_address && text.contains(':') && text.parse::<SocketAddr>().is_err()
}

/// Every problem stands somewhere in the text, comes with advice, and can be shown on a terminal.
fn check_problems(problems: &Problems, text: &str) {
    assert!(!problems.is_empty(), "refused, and nothing is wrong");
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n").replace('\r', "\n");
    for problem in problems {
        check_position(&problem.position, &text);
        if let Some((position, _)) = &problem.also {
            check_position(position, &text);
        }
        assert!(problem.hint.is_some(), "no advice: {problem}");
    }
    let shown = problems.to_string();
    assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "control characters in {shown:?}");
    let longest = shown.lines().map(|line| line.chars().count()).max();
    assert!(longest.is_some_and(|longest| longest < SHOWN_CHARS_MAX), "nothing or too much is said: {shown}");
}

fn check_position(position: &Position, text: &str) {
    if position.line == 0 {
        return; // It is about the whole file.
    }
    let line = text.split('\n').nth(position.line as usize - 1).expect("a problem stands on a line");
    let columns = 1..=line.chars().count() + 1;
    assert!(columns.contains(&(position.column as usize)), "{position:?} is not on its line {line:?}");
}

/// Asks every rule, at every time, and has it explained.
fn ask_all(engine: &Engine, snapshot: &Snapshot) {
    for place in snapshot.places() {
        assert!(!place.path().is_empty());
    }
    for name in snapshot.policy_names().iter().take(ASKED_MAX) {
        ask(engine, &Request::policy(name, b"k"));
        ask(engine, &Request::policy(name, b"k").tier("pro"));
    }
    for name in snapshot.domain_names().into_iter().take(ASKED_MAX) {
        let Some(domain) = snapshot.domain(name) else { panic!("the domain {name:?} is not there") };
        let mut ways = Vec::new();
        find_ways(domain.root(), &mut Vec::new(), &mut ways);
        for entries in ways {
            check_explained(snapshot, name, &entries);
            ask(engine, &Request::new(name, &[Descriptor::new(&entries)]));
            let given_back = Descriptor { cost: Some(2), refund: true, ..Descriptor::new(&entries) };
            let booked = Descriptor { cost: Some(2), ..Descriptor::new(&entries) };
            ask(engine, &Request::new(name, &[Descriptor::new(&entries), given_back, booked]));
        }
    }
}

/// The descriptors that lead to the first rules of a level and below it.
fn find_ways<'a>(level: &'a Level, way: &mut Vec<Entry<'a>>, found: &mut Vec<Vec<Entry<'a>>>) {
    for child in level.children() {
        if found.len() == ASKED_MAX {
            return;
        }
        let value = match &child.values {
            Values::Exact(value) => value,
            Values::Matching { pattern, .. } => pattern.as_str(),
            Values::Any => "any",
        };
        way.push((&child.key, value));
        found.push(way.clone());
        find_ways(&child.below, way, found);
        way.pop();
    }
}

fn check_explained(snapshot: &Snapshot, domain: &str, entries: &[Entry<'_>]) {
    let explanation = snapshot.explain(domain, entries);
    assert!(!explanation.to_string().is_empty());
    if explanation.meets_a_limit() {
        let found = snapshot.domain(domain).and_then(|domain| domain.find(entries));
        assert!(found.is_some(), "explained, but not found: {explanation}");
    }
}

fn ask(engine: &Engine, request: &Request<'_>) {
    for now in TIMES {
        for cost in COSTS {
            let request = request.cost(cost);
            // However often somebody looks, nothing changes.
            let [first, second] =
                [(); 2].map(|()| engine.decide(&request.peek(), now).map(|verdict| seen(&verdict)));
            assert_eq!(first, second, "{request:?}");
            let decided = engine.decide(&request, now);
            // A look at several descriptors takes each for itself, though one may leave nothing for the next.
            if !matches!(request.subject, Subject::Descriptors { descriptors: [_, _, ..], .. }) {
                let looked_at = first.map(|(allowed, _)| allowed);
                assert_eq!(looked_at.ok(), decided.as_ref().ok().map(Verdict::allowed), "{request:?}");
            }
            match decided {
                Ok(verdict) => check_verdict(&verdict),
                Err(RequestError::UnknownTier { .. }) => {}
                Err(error) => panic!("{request:?}: {error}"),
            }
            if let Ok((_, Some(lease))) = engine.acquire(&request, now) {
                let lease = lease.to_string().parse().expect("a lease can be read back");
                assert!(engine.release(&lease, now).is_ok_and(|released| released.here), "{request:?}");
            }
        }
    }
}

fn seen(verdict: &Verdict) -> (bool, Vec<Ruling>) {
    (verdict.allowed(), verdict.rulings().to_vec())
}

fn check_verdict(verdict: &Verdict) {
    assert_eq!(verdict.allowed(), !verdict.rulings().iter().any(Ruling::denies));
    for (name, value) in headers::fields(verdict, Wanted { x_ratelimit: true, older: true }) {
        check_field(name, &value);
    }
}
