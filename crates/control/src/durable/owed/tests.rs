//! What is owed to the database, written and read again.
#![allow(clippy::unwrap_used)]

use tollgate_core::{FixedWindow, Limit, Rate, Span};

use super::*;

fn owed(act: Act, account: Option<(&str, &str)>) -> Owed {
    let hourly = FixedWindow::new(Rate::new(100, Span::from_ticks(3_600_000_000_000)).unwrap());
    let limit = Arc::new(SharedLimit::new(&Limit::from(hourly)).unwrap());
    let account =
        account.map(|(subject, rule)| Arc::new(Account { subject: subject.into(), rule: rule.into() }));
    let question = Question { key: SharedKey(u128::MAX - 7), limit, act, account };
    Owed { question, since_us: 1_800_000_000_000_000, condition: Condition::Always }
}

fn check(owed: &Owed) {
    let line = owed.to_line().unwrap();
    assert!(!line.contains(['\n', '\r']), "{line:?}");
    assert_eq!(Owed::from_line(&line).as_ref(), Some(owed), "{line:?}");
}

#[test]
fn what_is_owed_is_read_as_it_was_written() {
    let moment = Time::from_ticks(1_799_999_999_000_000);
    check(&owed(Act::Book(Cost::new(u64::MAX)), Some(("acme", "llm/tenant"))));
    check(&owed(Act::Book(Cost::new(1)), None));
    check(&owed(Act::Book(Cost::new(1)), Some(("", ""))));
    check(&owed(Act::Book(Cost::new(1)), Some(("a\tb\nc\\td\r\\", "ä\u{1f600}"))));
    check(&owed(Act::GiveBack { units: 3, counted_at: moment, undoes: false }, Some(("a", "b"))));
    check(&owed(Act::GiveBack { units: 3, counted_at: moment, undoes: true }, Some(("a", "b"))));
    let rest = LeaseRest { units: 5, counted_at: moment, deadline: moment, number: 1 << 52 };
    check(&owed(Act::Return(rest), Some(("a", "b"))));
    for change in [SettleChange::Book(3), SettleChange::Return(4)] {
        let (number, sender) = (1 << 51, 1 << 52);
        let settle = SettleOnce { change, counted_at: moment, deadline: moment, number, sender };
        check(&owed(Act::Settle(settle), Some(("a", "b"))));
    }
    let id = OnceId { number: (1 << 63) - 1, fingerprint: (1 << 63) - 2 };
    for act in [
        OnceAct::Book(Cost::new(u64::MAX)),
        OnceAct::GiveBack { units: 3, counted_at: moment },
        OnceAct::Undo { units: 3, undoes: true },
        OnceAct::Undo { units: 3, undoes: false },
    ] {
        check(&owed(Act::Once(id, act), Some(("a", "b"))));
    }
    for condition in [Condition::IfCommitted, Condition::IfNotCommitted] {
        check(&Owed { condition, ..owed(Act::Book(Cost::new(1)), None) });
    }
}

#[test]
fn what_grants_something_or_forgets_what_was_counted_is_not_kept() {
    let once = Act::Once(OnceId { number: 1, fingerprint: 2 }, OnceAct::Take(Cost::new(1)));
    for act in [Act::Take(Cost::new(1)), once, Act::Peek(Cost::new(1)), Act::Reset] {
        assert_eq!(owed(act, None).to_line(), None, "{act:?}");
    }
}

#[test]
fn a_line_that_was_altered_is_refused() {
    let line = owed(Act::Book(Cost::new(12)), Some(("acme", "rule"))).to_line().unwrap();
    for altered in [
        line.replace("book", "buy"),
        line.replace("always", "never"),
        line.replace("\trule", ""),
        line.replace("hourly", ""),
        format!("{line}\tmore"),
        line[..line.len() / 2].to_owned(),
        String::new(),
    ] {
        if altered != line {
            assert_eq!(Owed::from_line(&altered), None, "{altered:?}");
        }
    }
}
