//! The engine against a naive model of its semantics: random requests, at one moment, so that a counter is a number and
//! nothing else.
#![allow(clippy::unwrap_used, clippy::panic, clippy::format_push_string)]

use std::collections::HashMap;

use proptest::collection::vec;
use proptest::prelude::*;
use tollgate::core::Time;
use tollgate::policy::{DefaultAlgorithm, Source, read_all};
use tollgate::{Descriptor, Engine, EngineSettings, LedgerSettings, Request, Status};

const NOW: Time = Time::from_ticks(1_800_000_000_000_000_000);

/// A rule: the limit's units for each of its windows, and how it behaves.
#[derive(Clone, Copy, Debug)]
struct Rule {
    key: &'static str,
    units: &'static [u64],
    shadow: bool,
    quota: bool,
    name: &'static str,
    replaces: &'static str,
}

const fn rule(key: &'static str, units: &'static [u64]) -> Rule {
    Rule { key, units, shadow: false, quota: false, name: "", replaces: "" }
}

const RULES: &[Rule] = &[
    Rule { name: "plain", ..rule("plain", &[5]) },
    rule("two", &[4, 6]),
    rule("blocked", &[0]),
    rule("free", &[]),
    Rule { shadow: true, ..rule("shadow", &[3]) },
    Rule { quota: true, ..rule("quota1", &[3]) },
    Rule { quota: true, ..rule("quota2", &[4, 5]) },
    Rule { replaces: "plain", ..rule("instead", &[7]) },
];

fn rules_text() -> String {
    let mut text = String::from("domain: d\ndescriptors:\n");
    for rule in RULES {
        text +=
            &format!("- key: {}\n  shadow_mode: {}\n  quota_mode: {}\n", rule.key, rule.shadow, rule.quota);
        let mut more = String::new();
        if !rule.name.is_empty() {
            more += &format!(", name: {}", rule.name);
        }
        if !rule.replaces.is_empty() {
            more += &format!(", replaces: [{{name: {}}}]", rule.replaces);
        }
        match rule.units {
            [] => text += "  rate_limit: {unlimited: true}\n",
            [units] => text += &format!("  rate_limit: {{unit: year, requests_per_unit: {units}{more}}}\n"),
            several => {
                let limits: Vec<_> = several
                    .iter()
                    .zip(["month", "year"])
                    .map(|(units, unit)| format!("{{unit: {unit}, requests_per_unit: {units}}}"))
                    .collect();
                text += &format!("  rate_limits: [{}]\n", limits.join(", "));
            }
        }
    }
    text
}

/// One descriptor of a request.
#[derive(Clone, Debug)]
struct Question {
    rule: Option<usize>,
    value: &'static str,
    refund: bool,
}

/// A request: its descriptors, its cost, and whether it only asks.
#[derive(Clone, Debug)]
struct Asked {
    questions: Vec<Question>,
    cost: u64,
    peek: bool,
}

fn asked() -> impl Strategy<Value = Asked> {
    let question = (
        prop::option::weighted(0.95, 0..RULES.len()),
        prop::sample::select(vec!["x", "y"]),
        prop::bool::weighted(0.1),
    )
        .prop_map(|(rule, value, refund)| Question { rule, value, refund });
    (vec(question, 1..4), 0..4_u64, prop::bool::weighted(0.1)).prop_map(|(questions, cost, peek)| {
        // A peek looks at each counter by itself: asking for the same one twice is for those who take.
        let twice = questions
            .iter()
            .enumerate()
            .any(|(at, one)| questions[..at].iter().any(|other| other.rule == one.rule));
        Asked { questions, cost, peek: peek && !twice }
    })
}

/// Units used, by rule, window and value.
#[derive(Default)]
struct Model {
    used: HashMap<(usize, usize, &'static str), u64>,
}

impl Model {
    fn remaining(&self, key: (usize, usize, &'static str)) -> u64 {
        RULES[key.0].units[key.1].saturating_sub(self.used.get(&key).copied().unwrap_or(0))
    }

    /// The counters of a question, if nothing takes their place.
    fn counters(question: &Question, replaced: &[&str]) -> Vec<(usize, usize, &'static str)> {
        let Some(rule) = question.rule else { return Vec::new() };
        if !RULES[rule].name.is_empty() && replaced.contains(&RULES[rule].name) {
            return Vec::new();
        }
        (0..RULES[rule].units.len()).map(|window| (rule, window, question.value)).collect()
    }

    fn charge(&mut self, counters: &[(usize, usize, &'static str)], cost: u64) {
        for counter in counters {
            *self.used.entry(*counter).or_default() += cost;
        }
    }

    /// Whether the request passes, and what each counter has left then.
    fn ask(&mut self, asked: &Asked) -> bool {
        let replaced: Vec<_> =
            asked.questions.iter().filter_map(|q| q.rule).map(|rule| RULES[rule].replaces).collect();
        let counters: Vec<_> =
            asked.questions.iter().map(|question| Model::counters(question, &replaced)).collect();
        for (question, counters) in asked.questions.iter().zip(&counters) {
            for counter in counters.iter().filter(|_| question.refund && !asked.peek) {
                let used = self.used.entry(*counter).or_default();
                *used = used.saturating_sub(asked.cost);
            }
        }
        let charged = || asked.questions.iter().zip(&counters).filter(|(question, _)| !question.refund);
        let fits = |model: &Model, counters: &[(usize, usize, &'static str)]| {
            counters.iter().all(|&counter| {
                RULES[counter.0].units[counter.1] > 0 && asked.cost <= model.remaining(counter)
            })
        };
        let kind = |question: &Question| question.rule.map(|rule| RULES[rule]);
        let quotas: Vec<bool> = charged()
            .filter(|(q, c)| kind(q).is_some_and(|r| r.quota) && !c.is_empty())
            .map(|(_, c)| fits(self, c))
            .collect();
        if !quotas.is_empty() && quotas.iter().all(|fits| !fits) {
            return false;
        }
        // Together: two descriptors may meet the same counter.
        let before = self.used.clone();
        for (question, counters) in charged() {
            match kind(question) {
                Some(rule) if rule.shadow => {}
                Some(rule) if rule.quota && !fits(&Model { used: before.clone() }, counters) => {}
                Some(_) if !fits(self, counters) => {
                    self.used = before;
                    return false;
                }
                _ => self.charge(counters, asked.cost),
            }
        }
        for (question, counters) in charged() {
            if kind(question).is_some_and(|rule| rule.shadow) && fits(self, counters) {
                self.charge(counters, asked.cost);
            }
        }
        if asked.peek {
            self.used = before;
        }
        true
    }
}

fn engine() -> Engine {
    let engine = Engine::new(EngineSettings {
        ledger: LedgerSettings::with_cap(8 << 20),
        ..EngineSettings::default()
    })
    .unwrap();
    let specs = read_all(&[Source::new("rules.yaml", rules_text())], DefaultAlgorithm::default());
    engine.install(specs.unwrap_or_else(|problems| panic!("{problems}")), NOW);
    engine
}

/// What every counter has left, as the engine tells it.
fn remaining(engine: &Engine) -> HashMap<(usize, usize, &'static str), u64> {
    let mut all = HashMap::new();
    for (index, rule) in RULES.iter().enumerate() {
        for value in ["x", "y"] {
            let entries = [(rule.key, value)];
            let descriptors = [Descriptor { cost: Some(0), ..Descriptor::new(&entries) }];
            let verdict = engine.decide(&Request::new("d", &descriptors), NOW).unwrap();
            for (window, ruling) in verdict.rulings().iter().enumerate() {
                all.insert((index, window, value), ruling.decision.remaining);
            }
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_engine_does_what_the_model_does(requests in vec(asked(), 1..30)) {
        let engine = engine();
        let mut model = Model::default();
        for asked in &requests {
            let entries: Vec<_> = asked.questions.iter().map(|q| [(q.rule.map_or("unknown", |rule| RULES[rule].key), q.value)]).collect();
            let descriptors: Vec<_> = entries
                .iter()
                .zip(&asked.questions)
                .map(|(entries, question)| Descriptor { refund: question.refund, ..Descriptor::new(entries) })
                .collect();
            let request = Request { peek: asked.peek, ..Request::new("d", &descriptors).cost(asked.cost) };
            let verdict = engine.decide(&request, NOW).unwrap();
            prop_assert_eq!(verdict.allowed(), model.ask(asked), "{:?}", asked);
            prop_assert_eq!(verdict.statuses().len(), asked.questions.len());
            prop_assert!(verdict.allowed() || verdict.rulings().iter().any(tollgate::Ruling::denies));
            for (key, left) in remaining(&engine) {
                prop_assert_eq!(left, model.remaining(key), "{:?} after {:?}", key, asked);
            }
            let is_free = |q: &Question| q.rule.is_some_and(|rule| RULES[rule].units.is_empty());
            for (status, question) in verdict.statuses().iter().zip(&asked.questions) {
                prop_assert_eq!(*status == Status::Unlimited, is_free(question));
            }
        }
    }
}
