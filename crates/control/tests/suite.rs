//! What a database promises, shown on SQLite and on a real PostgreSQL by the same checks.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

#[macro_use]
mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use common::{NOW_MS, Stand, ann, check_verifies, delete, everything, make, provided, put, repeatable};
use tollgate_control::{
    Action, AuditFilter, BODY_BYTES_MAX, Change, ChangeError, Condition, Database, DatabaseError,
    DatabaseSettings, Document, ID_BYTES_MAX, Kind, NODES_KEPT_MS, NodeState, PAGE_BYTES_MAX,
    REPEATS_KEPT_MS, Who,
};

on_both!(
    documents_are_written_read_and_deleted,
    documents_are_listed_by_the_bytes_of_their_ids,
    pages_are_bounded_in_bytes,
    conditions_hold_or_refuse,
    a_repetition_is_answered_and_not_made,
    acts_are_only_told,
    what_cannot_be_kept_is_refused,
    the_audit_is_filtered,
    many_changes_have_an_outcome_each,
    it_is_all_there_when_opened_again,
    writers_leave_no_gap_and_lose_nothing,
    what_is_loaded_is_of_one_moment,
    nodes_are_known_while_they_are_heard_of,
    an_older_schema_is_brought_up_to_date,
    a_newer_schema_and_a_strange_table_are_refused,
);

async fn documents_are_written_read_and_deleted(stand: &Stand) {
    let database = stand.open().await;
    assert_eq!(database.version().await, Ok(0));
    assert_eq!(database.document(Kind::Quota, "acme").await, Ok(None));

    let first = make(&database, put(Kind::Quota, "acme", r#"{"tier":"ä ? $1 'q'"}"#)).await;
    assert_eq!((first.version, first.before.clone(), first.is_repeat), (1, None, false));
    let document = Document {
        kind: Kind::Quota,
        id: "acme".to_owned(),
        version: 1,
        body: r#"{"tier":"ä ? $1 'q'"}"#.to_owned(),
        changed_at_ms: NOW_MS,
        changed_by: "ann".to_owned(),
    };
    assert_eq!(first.document, Some(document.clone()));
    assert_eq!(database.document(Kind::Quota, "acme").await, Ok(Some(document.clone())));
    assert_eq!(database.document(Kind::Policy, "acme").await, Ok(None));

    // The same again is a change of its own.
    let second = make(&database, put(Kind::Quota, "acme", &document.body)).await;
    assert_eq!((second.version, second.before), (2, Some(document)));
    let third = make(&database, delete(Kind::Quota, "acme")).await;
    assert_eq!((third.version, third.before, third.document), (3, second.document, None));
    assert_eq!(database.document(Kind::Quota, "acme").await, Ok(None));
    assert_eq!(database.change(delete(Kind::Quota, "acme"), NOW_MS).await, Err(ChangeError::Missing));
    assert_eq!(database.version().await, Ok(3));
    check_verifies(&database, 3).await;
}

async fn documents_are_listed_by_the_bytes_of_their_ids(stand: &Stand) {
    let database = stand.open().await;
    for id in ["b", "ä", "B", "a b", "a", "a-b", "Z", "aa"] {
        make(&database, put(Kind::Key, id, "{}")).await;
    }
    make(&database, put(Kind::Quota, "a", "{}")).await;
    let ids = async |after: Option<&str>, limit| -> Vec<String> {
        let page = database.documents(Kind::Key, after, limit).await.unwrap();
        page.rows.into_iter().map(|document| document.id).collect()
    };
    assert_eq!(ids(None, 100).await, ["B", "Z", "a", "a b", "a-b", "aa", "b", "ä"]);
    assert_eq!(ids(None, 2).await, ["B", "Z"]);
    assert_eq!(ids(Some("Z"), 3).await, ["a", "a b", "a-b"]);
    assert_eq!(ids(Some("ä"), 3).await, [""; 0]);
    assert_eq!(everything(&database).await.1.len(), 9);
}

async fn pages_are_bounded_in_bytes(stand: &Stand) {
    const COUNT: usize = 20;
    let database = stand.open().await;
    let large = format!("\"{}\"", "ä".repeat(BODY_BYTES_MAX / 2 - 1));
    for number in 0..COUNT {
        make(&database, put(Kind::Quota, &format!("t{number:02}"), &large)).await;
        make(&database, put(Kind::Quota, &format!("t{number:02}"), &large)).await;
    }
    let (mut ids, mut pages) = (Vec::<String>::new(), 0);
    loop {
        let page = database.documents(Kind::Quota, ids.last().map(String::as_str), 1_000).await.unwrap();
        assert!(page.rows.iter().map(|document| document.body.len()).sum::<usize>() <= PAGE_BYTES_MAX);
        ids.extend(page.rows.into_iter().map(|document| document.id));
        pages += 1;
        if !page.has_more {
            break;
        }
    }
    assert!(ids.is_sorted() && ids.len() == COUNT && pages > COUNT / 4, "{pages} {ids:?}");
    for is_newest_first in [false, true] {
        let mut filter = AuditFilter { is_newest_first, limit: 1_000, ..AuditFilter::default() };
        let mut versions = Vec::new();
        loop {
            let page = database.audit(&filter).await.unwrap();
            let texts = page.rows.iter().flat_map(|row| [&row.before, &row.after]).flatten();
            assert!(texts.map(String::len).sum::<usize>() <= PAGE_BYTES_MAX);
            versions.extend(page.rows.iter().map(|row| row.version));
            filter.after = versions.last().copied();
            if !page.has_more {
                break;
            }
        }
        if is_newest_first {
            versions.reverse();
        }
        assert_eq!(versions, (1..=2 * COUNT as u64).collect::<Vec<_>>());
    }
    // Who reads everything has pages of the same size, and misses nothing.
    assert_eq!(everything(&database).await.1.len(), COUNT);
    check_verifies(&database, 2 * COUNT as u64).await;
    let mut version = 0;
    while let Some(last) = database.since(version, 1_000).await.unwrap().last() {
        version = last.version;
    }
    assert_eq!(version, 2 * COUNT as u64);
}

async fn conditions_hold_or_refuse(stand: &Stand) {
    let database = stand.open().await;
    let change = async |condition, change| database.change(provided(condition, change), NOW_MS).await;
    let write = || put(Kind::Policy, "p", "{}");
    let none = Err(ChangeError::Condition { current: None });

    assert_eq!(change(Condition::IfPresent, write()).await, none);
    assert_eq!(change(Condition::IfVersion(1), write()).await, none);
    assert_eq!(change(Condition::IfPresent, delete(Kind::Policy, "p")).await, none);
    assert_eq!(change(Condition::IfAbsent, write()).await.map(|changed| changed.version), Ok(1));
    let current = Err(ChangeError::Condition { current: Some(1) });
    assert_eq!(change(Condition::IfAbsent, write()).await, current);
    assert_eq!(change(Condition::IfVersion(2), write()).await, current);
    assert_eq!(change(Condition::IfVersion(1), write()).await.map(|changed| changed.version), Ok(2));
    assert_eq!(change(Condition::IfPresent, write()).await.map(|changed| changed.version), Ok(3));
    let deleted = change(Condition::IfVersion(3), delete(Kind::Policy, "p")).await;
    assert_eq!(deleted.map(|changed| changed.version), Ok(4));
    check_verifies(&database, 4).await;
}

async fn a_repetition_is_answered_and_not_made(stand: &Stand) {
    let database = stand.open().await;
    make(&database, put(Kind::Quota, "a", "0")).await;
    let asked = || repeatable("key", "f1", put(Kind::Quota, "a", "1"));
    let first = make(&database, asked()).await;
    make(&database, put(Kind::Quota, "a", "2")).await;
    let again = database.change(asked(), NOW_MS + 1).await.unwrap();
    assert!(again.is_repeat && !first.is_repeat);
    assert_eq!((again.version, &again.before, &again.document), (2, &first.before, &first.document));
    assert_eq!(database.document(Kind::Quota, "a").await.unwrap().unwrap().body, "2");

    let other = repeatable("key", "f2", put(Kind::Quota, "a", "3"));
    assert_eq!(database.change(other.clone(), NOW_MS).await, Err(ChangeError::RepeatDiffers));
    let bob = Who { name: "bob".to_owned(), ..ann() };
    assert_eq!(make(&database, Change { who: bob, ..other.clone() }).await.version, 4);
    // What did not hold is not remembered.
    let refused = repeatable("fresh", "f", provided(Condition::IfAbsent, put(Kind::Quota, "a", "4")));
    assert!(database.change(refused, NOW_MS).await.is_err());
    assert_eq!(make(&database, repeatable("fresh", "f", put(Kind::Quota, "a", "4"))).await.version, 5);

    // An act, too; and twice in one transaction.
    let reset = || repeatable("reset", "r", Change { action: Action::RESET, ..put(Kind::Usage, "a", "{}") });
    let outcomes = database.change_many(vec![reset(), reset()], NOW_MS).await;
    let outcomes: Vec<_> = outcomes.into_iter().map(|outcome| outcome.unwrap()).collect();
    assert_eq!((outcomes[0].version, outcomes[1].version), (6, 6));
    assert_eq!((outcomes[0].is_repeat, outcomes[1].is_repeat), (false, true));
    // As long as it is not said that it is done, it is not.
    let again = make(&database, reset()).await;
    assert!(again.is_repeat && !again.is_finished);
    let is_finished = async |change: Change| database.change(change, NOW_MS).await.unwrap().is_finished;
    database.finish(&ann(), reset().repeat.as_ref(), 5).await.unwrap();
    assert!(!is_finished(reset()).await, "another one was done");
    database.finish(&ann(), None, 6).await.unwrap();
    assert!(!is_finished(reset()).await, "nobody knows which");
    database.finish(&ann(), reset().repeat.as_ref(), 6).await.unwrap();
    assert!(is_finished(reset()).await);
    assert!(!is_finished(asked()).await);

    // After a day the key is free, and the old one is thrown away.
    let later_ms = NOW_MS + REPEATS_KEPT_MS + 2;
    let changed = database.change(other.clone(), later_ms).await.unwrap();
    assert_eq!((changed.version, changed.is_finished), (7, false));
    assert_eq!(stand.sql("SELECT count(*) FROM repeats"), "1");
    check_verifies(&database, 7).await;
}

async fn acts_are_only_told(stand: &Stand) {
    let database = stand.open().await;
    let reload = Change { action: Action::RELOAD, ..put(Kind::Rules, "", r#"{"files":2}"#) };
    let changed = make(&database, reload.clone()).await;
    assert_eq!((changed.version, changed.before, changed.document), (1, None, None));
    let rows = database.since(0, 10).await.unwrap();
    assert_eq!((rows[0].action.as_str(), rows[0].kind.as_str()), ("reload", "rules"));
    assert_eq!(rows[0].after.as_deref(), Some(r#"{"files":2}"#));
    assert_eq!(rows[0].document(), None);
    assert_eq!(everything(&database).await, (1, Vec::new()));
    let conditional = provided(Condition::IfPresent, reload);
    assert!(matches!(database.change(conditional, NOW_MS).await, Err(ChangeError::Invalid(_))));
    check_verifies(&database, 1).await;
}

async fn what_cannot_be_kept_is_refused(stand: &Stand) {
    let database = stand.open().await;
    let long = "x".repeat(BODY_BYTES_MAX + 1);
    let refused = [
        put(Kind::Quota, "", "{}"),
        put(Kind::Quota, &long[..=ID_BYTES_MAX], "{}"),
        put(Kind::Quota, "a\0b", "{}"),
        put(Kind::Quota, "a", &long),
        put(Kind::Quota, "a", ""),
        put(Kind::Quota, "a", "\0"),
        repeatable("", "f", put(Kind::Quota, "a", "{}")),
        repeatable(&long[..257], "f", put(Kind::Quota, "a", "{}")),
        Change { who: Who { name: String::new(), ..ann() }, ..put(Kind::Quota, "a", "{}") },
    ];
    for change in refused {
        let outcome = database.change(change, NOW_MS).await;
        assert!(matches!(outcome, Err(ChangeError::Invalid(_))), "{outcome:?}");
    }
    // The longest that there may be, with letters of several bytes.
    make(&database, put(Kind::Quota, &"é".repeat(ID_BYTES_MAX / 2), &long[..BODY_BYTES_MAX])).await;
    check_verifies(&database, 1).await;
}

async fn the_audit_is_filtered(stand: &Stand) {
    let database = stand.open().await;
    for number in 0..6_i64 {
        let who =
            Who { name: if number % 2 == 0 { "ann" } else { "bob" }.to_owned(), role: "operator".to_owned() };
        let kind = if number < 3 { Kind::Quota } else { Kind::Policy };
        let change = Change { who, ..put(kind, &format!("id{}", number % 3), "{}") };
        database.change(change, NOW_MS + number * 1_000).await.unwrap();
    }
    database.change(delete(Kind::Quota, "id0"), NOW_MS + 6_000).await.unwrap();
    let base = || AuditFilter { limit: 100, ..AuditFilter::default() };
    let text = |text: &str| Some(text.to_owned());
    let cases: [(AuditFilter, &[u64]); 10] = [
        (base(), &[1, 2, 3, 4, 5, 6, 7]),
        (AuditFilter { after: Some(2), limit: 2, ..base() }, &[3, 4]),
        (AuditFilter { is_newest_first: true, limit: 2, ..base() }, &[7, 6]),
        (AuditFilter { is_newest_first: true, after: Some(3), ..base() }, &[2, 1]),
        (AuditFilter { who: text("bob"), ..base() }, &[2, 4, 6]),
        (AuditFilter { action: text("delete"), ..base() }, &[7]),
        (AuditFilter { kind: Some(Kind::Policy), ..base() }, &[4, 5, 6]),
        (AuditFilter { kind: Some(Kind::Quota), id: text("id0"), ..base() }, &[1, 7]),
        (AuditFilter { from_ms: Some(NOW_MS + 1_000), to_ms: Some(NOW_MS + 3_000), ..base() }, &[2, 3]),
        (AuditFilter { who: text("' OR 1=1 --"), ..base() }, &[]),
    ];
    for (filter, expected) in cases {
        let page = database.audit(&filter).await.unwrap();
        let versions: Vec<u64> = page.rows.iter().map(|row| row.version).collect();
        assert_eq!(versions, expected, "{filter:?}");
    }
    let rows = database.since(6, 10).await.unwrap();
    assert_eq!((rows[0].before.as_deref(), rows[0].after.as_deref()), (Some("{}"), None));
}

async fn many_changes_have_an_outcome_each(stand: &Stand) {
    let database = stand.open().await;
    let mut changes: Vec<Change> =
        (0..1_000).map(|number| put(Kind::Quota, &format!("t{:03}", number % 600), "{}")).collect();
    changes[10] = provided(Condition::IfVersion(5), changes[10].clone());
    changes[20] = delete(Kind::Quota, "nobody");
    changes[30] = put(Kind::Quota, "", "{}");
    changes[40] = delete(Kind::Quota, "t039");
    let outcomes = database.change_many(changes, NOW_MS).await;
    assert_eq!(outcomes.len(), 1_000);
    assert_eq!(outcomes[10], Err(ChangeError::Condition { current: None }));
    assert_eq!(outcomes[20], Err(ChangeError::Missing));
    assert!(matches!(outcomes[30], Err(ChangeError::Invalid(_))));
    let versions: Vec<u64> = outcomes.iter().flatten().map(|changed| changed.version).collect();
    assert_eq!(versions, (1..=997).collect::<Vec<u64>>());
    assert_eq!(everything(&database).await.1.len(), 600);
    check_verifies(&database, 997).await;
}

async fn it_is_all_there_when_opened_again(stand: &Stand) {
    let database = stand.open().await;
    make(&database, put(Kind::Switch, "all", "{}")).await;
    let fleet = database.fleet().to_owned();
    let before = everything(&database).await;
    drop(database);
    let database = stand.open().await;
    assert_eq!(database.fleet(), fleet);
    assert_eq!(everything(&database).await, before);
    assert_eq!(make(&database, put(Kind::Switch, "all", "[]")).await.version, 2);
    check_verifies(&database, 2).await;
}

/// Three nodes write at the same time: some to documents of their own, and all to one, each time to what they have read.
async fn writers_leave_no_gap_and_lose_nothing(stand: &Stand) {
    const ROUNDS: u64 = 25;
    let nodes = [Arc::new(stand.open().await), Arc::new(stand.open().await), Arc::new(stand.open().await)];
    make(&nodes[0], put(Kind::Policy, "sum", "0")).await;
    let mut writers = Vec::new();
    for number in 0..6 {
        let database = Arc::clone(&nodes[number % nodes.len()]);
        writers.push(tokio::spawn(async move {
            for round in 0..ROUNDS {
                make(&database, put(Kind::Quota, &format!("{number}"), &format!("{round}"))).await;
                add_one(&database).await;
            }
        }));
    }
    let watcher = tokio::spawn(watch_for_gaps(Arc::clone(&nodes[1]), 6 * ROUNDS * 2 + 1));
    for writer in writers {
        writer.await.expect("a writer");
    }
    watcher.await.expect("the watcher");
    let sum = nodes[2].document(Kind::Policy, "sum").await.unwrap().unwrap();
    assert_eq!(sum.body, (6 * ROUNDS).to_string());
    check_verifies(&nodes[0], 6 * ROUNDS * 2 + 1).await;
}

async fn add_one(database: &Database) {
    loop {
        let sum = database.document(Kind::Policy, "sum").await.unwrap().unwrap();
        let more = sum.body.parse::<u64>().unwrap() + 1;
        let change = provided(Condition::IfVersion(sum.version), put(Kind::Policy, "sum", &more.to_string()));
        match database.change(change, NOW_MS).await {
            Ok(_) => return,
            Err(ChangeError::Condition { .. }) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// Whoever sees a version sees all before it.
async fn watch_for_gaps(database: Arc<Database>, last: u64) {
    let mut seen = 0;
    while seen < last {
        // The writers need the machine, too.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let version = database.version().await.expect("the version");
        let rows = database.since(seen, 1_000).await.expect("what was changed");
        for row in &rows {
            assert_eq!(row.version, seen + 1);
            seen = row.version;
        }
        assert!(seen >= version, "the version was {version}, and the audit goes to {seen}");
    }
}

/// What was loaded while others wrote is what the audit says of that version.
async fn what_is_loaded_is_of_one_moment(stand: &Stand) {
    let database = Arc::new(stand.open().await);
    let all = (0..1_200).map(|number| put(Kind::Quota, &format!("{number:04}"), "0")).collect();
    database.change_many(all, NOW_MS).await;
    let writer = tokio::spawn({
        let database = Arc::clone(&database);
        async move {
            for round in 0..20 {
                let some = (0..60).map(|number| match (number + round) % 3 {
                    0 => delete(Kind::Quota, &format!("{:04}", number * 20)),
                    _ => put(Kind::Quota, &format!("{:04}", number * 20), &round.to_string()),
                });
                database.change_many(some.collect(), NOW_MS).await;
            }
        }
    });
    for _ in 0..5 {
        let (version, loaded) = everything(&database).await;
        let mut told: BTreeMap<String, Document> = BTreeMap::new();
        let mut known = 0;
        while known < version {
            for row in database.since(known, 1_000).await.unwrap().iter().filter(|row| row.version <= version)
            {
                known = row.version;
                match row.document() {
                    Some(document) => drop(told.insert(row.id.clone(), document)),
                    None => drop(told.remove(&row.id)),
                }
            }
        }
        assert_eq!(loaded, told.into_values().collect::<Vec<_>>(), "at version {version}");
    }
    writer.await.unwrap();
}

async fn nodes_are_known_while_they_are_heard_of(stand: &Stand) {
    let database = stand.open().await;
    let node = |name: &str, version| NodeState {
        node: format!("id-{name}"),
        name: name.to_owned(),
        version,
        rules: "abc".to_owned(),
        started_at_ms: NOW_MS,
        seen_at_ms: 0,
    };
    database.beat(&node("a", 1), NOW_MS).await.unwrap();
    database.beat(&node("b", 2), NOW_MS + 5).await.unwrap();
    database.beat(&node("a", 3), NOW_MS + 10).await.unwrap();
    let expected = [
        NodeState { seen_at_ms: NOW_MS + 10, ..node("a", 3) },
        NodeState { seen_at_ms: NOW_MS + 5, ..node("b", 2) },
    ];
    assert_eq!(database.nodes(NOW_MS + 10).await.unwrap(), expected);
    assert_eq!(database.nodes(NOW_MS + 10 + NODES_KEPT_MS).await.unwrap(), expected[..1]);
    assert_eq!(stand.sql("SELECT count(*) FROM nodes"), "1");
    database.leave("id-a").await.unwrap();
    assert_eq!(database.nodes(NOW_MS).await.unwrap(), []);
    assert_eq!(database.version().await, Ok(0));
}

/// As the tables were before there was a third schema.
async fn an_older_schema_is_brought_up_to_date(stand: &Stand) {
    let database = stand.open().await;
    make(&database, repeatable("key", "f", put(Kind::Quota, "a", "{}"))).await;
    drop(database);
    stand.sql("ALTER TABLE repeats DROP COLUMN finished");
    stand.sql(
        "DROP INDEX audit_by_who; DROP INDEX audit_by_id; DROP TABLE past_counters; DROP TABLE settlements; DROP TABLE request_ids",
    );
    stand.sql("DELETE FROM settings WHERE name = 'fleet_secret'");
    stand.sql("UPDATE settings SET value = '2' WHERE name = 'schema'");
    let database = stand.open().await;
    let again = make(&database, repeatable("key", "f", put(Kind::Quota, "a", "{}"))).await;
    assert!(again.is_repeat && !again.is_finished);
    assert_eq!(stand.sql("SELECT value FROM settings WHERE name = 'schema'"), "6");
    check_verifies(&database, 1).await;
}

async fn a_newer_schema_and_a_strange_table_are_refused(stand: &Stand) {
    drop(stand.open().await);
    stand.sql("UPDATE settings SET value = '99' WHERE name = 'schema'");
    let opened = Database::open(DatabaseSettings::new(stand.address())).await.map(drop);
    assert_eq!(opened, Err(DatabaseError::Newer { found: 99, known: 6 }));
    stand.sql("DELETE FROM settings");
    let opened = Database::open(DatabaseSettings::new(stand.address())).await.map(drop);
    assert!(matches!(opened, Err(DatabaseError::Settings(_))), "{opened:?}");
}

/// What one has changed, or what was changed under an id, is found without a look at everything else, and in order.
#[tokio::test]
async fn the_audit_has_a_way_to_who_and_to_what() {
    let stand = Stand::sqlite();
    drop(stand.open().await);
    let file = rusqlite::Connection::open(stand.path()).unwrap();
    for (column, index) in [("who", "audit_by_who"), ("id", "audit_by_id")] {
        for (beyond, order) in [(">", "ASC"), ("<", "DESC")] {
            let sql = format!(
                "EXPLAIN QUERY PLAN SELECT * FROM audit WHERE version {beyond} ? AND {column} = ? ORDER BY version {order} LIMIT 9"
            );
            let mut statement = file.prepare(&sql).unwrap();
            let rows = statement.query_map(("7", "x"), |row| row.get::<_, String>("detail")).unwrap();
            let plan: Vec<String> = rows.map(Result::unwrap).collect();
            assert!(plan.len() == 1 && plan[0].contains(index), "{sql}: {plan:?}");
        }
    }
}
