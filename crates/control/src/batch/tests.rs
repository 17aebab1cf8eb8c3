//! Changes against a naive model: one after the other, with nothing remembered but what a person would write down.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::change::{Action, Who};

fn known() -> Known {
    Known { head: Head::first("fleet"), documents: HashMap::new(), repeats: HashMap::new() }
}

/// A few ids, bodies, conditions and keys, so that changes meet.
fn asked() -> impl Strategy<Value = Asked> {
    let condition = prop_oneof![
        3 => Just(Condition::Any),
        1 => (0_u64..12).prop_map(Condition::IfVersion),
        1 => proptest::collection::vec(0_u64..12, 0..6).prop_map(Condition::IfOneOf),
        1 => Just(Condition::IfAbsent),
        1 => Just(Condition::IfPresent),
    ];
    let repeat = proptest::option::weighted(0.3, (0_u8..3, 0_u8..2));
    (0_u8..4, proptest::option::weighted(0.7, 0_u8..3), condition, repeat, 0_i64..3).prop_map(
        |(id, body, condition, repeat, days)| Asked {
            change: Change {
                who: Who { name: "ann".to_owned(), role: "admin".to_owned() },
                action: Action::PUT,
                kind: Kind::Quota,
                id: id.to_string(),
                body: body.map(|body| body.to_string()),
                condition,
                repeat: repeat.map(|(key, of)| Repeat { key: key.to_string(), fingerprint: of.to_string() }),
            },
            now_ms: days * REPEATS_KEPT_MS,
        },
    )
}

/// What is there: version and body by id, and what was repeated.
#[derive(Default)]
struct Model {
    version: u64,
    documents: BTreeMap<String, (u64, String)>,
    repeats: BTreeMap<String, (String, i64, u64)>,
}

impl Model {
    /// The version that comes of it, and whether it is a repetition.
    fn make(&mut self, asked: &Asked) -> Result<(u64, bool), ChangeError> {
        let change = &asked.change;
        if let Some(repeat) = &change.repeat
            && let Some((fingerprint, at_ms, version)) = self.repeats.get(&repeat.key)
            && asked.now_ms - at_ms < REPEATS_KEPT_MS
        {
            return if *fingerprint == repeat.fingerprint {
                Ok((*version, true))
            } else {
                Err(ChangeError::RepeatDiffers)
            };
        }
        let current = self.documents.get(&change.id).map(|(version, _)| *version);
        let is_refused = match &change.condition {
            Condition::Any => false,
            Condition::IfVersion(version) => current != Some(*version),
            Condition::IfOneOf(versions) => versions.iter().all(|version| current != Some(*version)),
            Condition::IfAbsent => current.is_some(),
            Condition::IfPresent => current.is_none(),
        };
        if is_refused {
            return Err(ChangeError::Condition { current });
        }
        if change.body.is_none() && current.is_none() {
            return Err(ChangeError::Missing);
        }
        self.version += 1;
        match &change.body {
            Some(body) => drop(self.documents.insert(change.id.clone(), (self.version, body.clone()))),
            None => drop(self.documents.remove(&change.id)),
        }
        if let Some(repeat) = &change.repeat {
            let told = (repeat.fingerprint.clone(), asked.now_ms, self.version);
            self.repeats.insert(repeat.key.clone(), told);
        }
        Ok((self.version, false))
    }
}

proptest! {
    #[test]
    fn a_batch_does_what_its_changes_do_one_by_one(asked in proptest::collection::vec(asked(), 1..40)) {
        let mut model = Model::default();
        let plan = plan(known(), &asked);
        for (asked, outcome) in asked.iter().zip(&plan.outcomes) {
            let outcome = outcome.clone().map(|changed| (changed.version, changed.is_repeat));
            prop_assert_eq!(outcome, model.make(asked));
        }
        prop_assert_eq!(plan.head.version, model.version);
        prop_assert_eq!(plan.rows.len() as u64, model.version);
        let mut last = Head::first("fleet");
        for row in &plan.rows {
            prop_assert_eq!((row.version, &row.previous), (last.version + 1, &last.hash));
            prop_assert_eq!(&chain::hash(row), &row.hash);
            last = Head { version: row.version, hash: row.hash.clone() };
        }
        prop_assert_eq!(&last, &plan.head);
        let written: BTreeMap<_, _> =
            plan.written.into_iter().map(|document| (document.id, (document.version, document.body))).collect();
        prop_assert_eq!(&written, &model.documents);
        for (_, id) in &plan.deleted {
            prop_assert!(!model.documents.contains_key(id));
        }
    }
}
