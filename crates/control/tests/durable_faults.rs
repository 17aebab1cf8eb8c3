//! Durable quotas where a database dies, hangs, is lost, is full, or has others at it: no unit beyond the limit, and none that nobody has.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

mod common;

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use common::detour::{LOSE_ALL, LOSE_ANSWER, LOSE_QUESTION, PASS, url_by_detour};
use common::durable::{
    PATIENCE, ask, authority, count, give_back, give_back_lease, granted, history, lease, per_month,
    question, settle, take, used,
};
use common::{Small, Stand, fill, make, put};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tollgate_control::{Database, DatabaseAddress, DatabaseSettings, DurableAuthority, Kind};
use tollgate_core::{Cost, SharedLimit};
use tollgate_store::Clock;
use tollgate_store::authority::breaker::State;
use tollgate_store::authority::{Act, Failure, Question};
use tollgate_testkit::real::postgres::PostgresServer;

async fn open(url: &str) -> Database {
    Database::open(DatabaseSettings::new(url.parse().unwrap())).await.unwrap()
}

/// One that is soon done with waiting for what does not come.
async fn open_impatient(url: &str) -> Database {
    let settings = DatabaseSettings {
        connect_timeout: Duration::from_millis(500),
        statement_timeout: Duration::from_millis(500),
        ..DatabaseSettings::new(url.parse().unwrap())
    };
    Database::open(settings).await.unwrap()
}

/// Units that somebody has, by what the authority answered and what was given back.
#[derive(Debug, Default)]
struct Owned {
    units: u64,
    answered: u64,
    failed: u64,
}

/// Takes, leases and gives back, until it is to stop.
fn traffic(
    authority: &Arc<DurableAuthority>,
    number: u64,
    limit: &Arc<SharedLimit>,
    stop: &Arc<AtomicBool>,
) -> JoinHandle<Owned> {
    let (authority, limit, stop) = (Arc::clone(authority), Arc::clone(limit), Arc::clone(stop));
    tokio::spawn(async move {
        let mut owned = Owned::default();
        let mut round = number * 1_000_000;
        while !stop.load(Ordering::Relaxed) {
            round += 1;
            let asked = if round.is_multiple_of(2) { lease(1, &limit, 7, round) } else { take(1, &limit, 5) };
            let Ok(grant) = authority.ask_all(vec![asked.clone()], Duration::from_millis(300)).await[0]
            else {
                owned.failed += 1;
                sleep(Duration::from_millis(2)).await;
                continue;
            };
            assert!(grant.decision.is_allowed());
            owned.answered += 1;
            // Some of it comes back, now or never; some more is spent.
            let (units, back) = match asked.act {
                Act::Lease { .. } => (grant.leased, give_back_lease(&asked, &grant, 3)),
                _ => (5, give_back(&asked, &grant, 3)),
            };
            owned.units += units;
            if round.is_multiple_of(3) {
                authority.tell(vec![back]);
                owned.units -= 3;
            }
            if round.is_multiple_of(5) {
                authority.tell(vec![question(1, &limit, Act::Book(Cost::new(2)))]);
                owned.units += 2;
            }
        }
        owned
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_in_the_middle_of_traffic_it_counts_what_was_granted_exactly() {
    let stand = Stand::postgres();
    let Stand::Postgres(mut server) = stand else { panic!("no server") };
    let databases = [open(&server.url()).await, open(&server.url()).await];
    let authorities: Vec<_> = databases.iter().map(|database| Arc::new(authority(database))).collect();
    let (limit, stop) = (per_month(1 << 40), Arc::new(AtomicBool::new(false)));
    let streams: Vec<_> =
        (0..6).map(|number| traffic(&authorities[number % 2], number as u64, &limit, &stop)).collect();
    for _ in 0..5 {
        sleep(Duration::from_millis(400)).await;
        tokio::task::block_in_place(|| server.restart());
    }
    sleep(Duration::from_millis(1_500)).await;
    stop.store(true, Ordering::Relaxed);
    let mut all = Owned::default();
    for stream in streams {
        let owned = stream.await.unwrap();
        all.units += owned.units;
        all.answered += owned.answered;
        all.failed += owned.failed;
    }
    for authority in &authorities {
        settle(authority).await;
        let stats = authority.stats();
        println!("{stats:?}");
        assert_eq!(stats.forgotten, 0);
    }
    println!("{all:?}");
    assert!(all.answered > 200 && all.failed > 0, "{all:?}");
    let stand = Stand::Postgres(server);
    assert_eq!(used(&stand, 1), all.units, "{all:?}");
    assert_eq!(history(&databases[0], "acme").await, all.units);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_want_the_same_counters_in_other_orders_wait_for_each_other_and_count_exactly() {
    let stand = Stand::postgres();
    let Stand::Postgres(server) = &stand else { panic!("no server") };
    let limit = per_month(600);
    let mut streams = Vec::new();
    for node in 0..2 {
        let database = open(&server.url()).await;
        let authority = Arc::new(authority(&database));
        for stream in 0..4 {
            let (authority, limit) = (Arc::clone(&authority), Arc::clone(&limit));
            streams.push(tokio::spawn(async move {
                let mut taken = [0_u64; 5];
                let keys: Vec<usize> =
                    if (node + stream) % 2 == 0 { (0..5).collect() } else { (0..5).rev().collect() };
                for _ in 0..400 {
                    let asked = keys.iter().map(|key| take(*key as u64, &limit, 1)).collect();
                    let answers = authority.ask_all(asked, PATIENCE).await;
                    for (key, answer) in keys.iter().zip(answers) {
                        taken[*key] += u64::from(answer.unwrap().decision.is_allowed());
                    }
                }
                taken
            }));
        }
    }
    let mut taken = [0_u64; 5];
    for stream in streams {
        for (sum, more) in taken.iter_mut().zip(stream.await.unwrap()) {
            *sum += more;
        }
    }
    assert_eq!(taken, [600; 5], "not exactly what there was");
    for key in 0..5 {
        assert_eq!(used(&stand, key), 600);
    }
    assert_eq!(server.sql("SELECT deadlocks FROM pg_stat_database WHERE datname = 'tollgate'"), "0");
    assert!(!server.logs().contains("deadlock"), "{}", server.logs());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_was_lost_is_undone_if_it_was_made_and_told_again_if_it_was_not() {
    let server = PostgresServer::start();
    let mode = Arc::new(AtomicU8::new(PASS));
    let database = open(&url_by_detour(&server, &mode).await).await;
    let stand = Stand::Postgres(Box::new(server));
    let authority = authority(&database);
    let limit = per_month(1_000);
    let first = granted(&authority, take(1, &limit, 100)).await;
    settle(&authority).await;
    let mut expected = 100;
    for (round, what) in [LOSE_QUESTION, LOSE_ANSWER, LOSE_QUESTION, LOSE_ANSWER].into_iter().enumerate() {
        let round = round as u64;
        for asked in [take(1, &limit, 10), lease(1, &limit, 20, 100 + round)] {
            mode.store(what, Ordering::SeqCst);
            let answer = ask(&authority, asked.clone()).await;
            assert_eq!(answer, Err(Failure::Unreachable), "{asked:?}");
            assert_eq!(mode.load(Ordering::SeqCst), PASS, "nothing was lost");
            settle(&authority).await;
            assert_eq!(used(&stand, 1), expected, "{what} {asked:?}");
            assert_eq!(count(&stand, "leases"), 0);
        }
        for (told, change) in [
            (question(1, &limit, Act::Book(Cost::new(6))), 6_i64),
            (give_back(&take(1, &limit, 100), &first, 4), -4),
        ] {
            mode.store(what, Ordering::SeqCst);
            authority.tell(vec![told.clone()]);
            settle(&authority).await;
            assert_eq!(mode.load(Ordering::SeqCst), PASS, "nothing was lost");
            expected = expected.strict_add_signed(change);
            assert_eq!(used(&stand, 1), expected, "{what} {told:?}");
        }
        let kept = lease(1, &limit, 30, 200 + round);
        let grant = granted(&authority, kept.clone()).await;
        mode.store(what, Ordering::SeqCst);
        authority.tell(vec![give_back_lease(&kept, &grant, 30)]);
        settle(&authority).await;
        assert_eq!((used(&stand, 1), count(&stand, "leases")), (expected, 0));
    }
    assert_eq!(history(&database, "acme").await, expected);

    // Where the database stays away after it, that is found out when it is back; others are told meanwhile.
    mode.store(LOSE_ALL, Ordering::SeqCst);
    authority.tell(vec![question(1, &limit, Act::Book(Cost::new(1)))]);
    assert_eq!(ask(&authority, take(1, &limit, 50)).await, Err(Failure::Unreachable));
    assert!(ask(&authority, take(1, &limit, 50)).await.is_err());
    assert!(!authority.settle(Duration::from_millis(300)).await);
    mode.store(PASS, Ordering::SeqCst);
    settle(&authority).await;
    assert_eq!(used(&stand, 1), expected + 1);
    assert_eq!(authority.stats().forgotten, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_it_is_away_nobody_waits_for_it_and_it_is_found_again() {
    let mut server = PostgresServer::start();
    let database = open(&server.url()).await;
    let authority = authority(&database);
    let limit = per_month(1_000_000);
    let first = granted(&authority, take(1, &limit, 10)).await;
    tokio::task::block_in_place(|| server.kill());
    let clock = Clock::new();
    let mut failures = Vec::new();
    while authority.stats().breaker == State::Closed {
        failures.push(ask(&authority, take(1, &limit, 1)).await.unwrap_err());
        sleep(Duration::from_millis(5)).await;
    }
    assert!(failures.iter().all(|failure| *failure == Failure::Unreachable), "{failures:?}");
    let began = clock.now();
    let answers = authority.ask_all(vec![take(1, &limit, 1); 3], PATIENCE).await;
    let took = Duration::from_nanos(clock.now().since(began).ticks());
    assert!(
        answers.iter().all(Result::is_err) && took < Duration::from_millis(100),
        "{answers:?} in {took:?}"
    );
    let mut not_asked = 0;
    for _ in 0..50 {
        not_asked += u32::from(ask(&authority, take(1, &limit, 1)).await == Err(Failure::NotAsked));
        sleep(Duration::from_millis(5)).await;
    }
    assert!(not_asked > 25, "{not_asked}");
    // What is told meanwhile is kept, and so is what has happened whatever is answered.
    authority.tell(vec![give_back(&take(1, &limit, 10), &first, 4)]);
    let facts =
        vec![question(1, &limit, Act::Book(Cost::new(30))), give_back(&take(1, &limit, 10), &first, 1)];
    assert!(authority.ask_all(facts, PATIENCE).await.iter().all(Result::is_err));
    tokio::task::block_in_place(|| server.restart());
    timeout(PATIENCE, async {
        while authority.stats().breaker != State::Closed {
            let _ = ask(&authority, question(1, &limit, Act::Peek(Cost::ONE))).await;
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("it is not found again");
    settle(&authority).await;
    let stats = authority.stats();
    assert!(stats.openings > 0 && stats.transactions_failed > 0, "{stats:?}");
    assert_eq!(used(&Stand::Postgres(Box::new(server)), 1), 10 - 4 + 30 - 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frozen_it_keeps_nobody_longer_than_they_wait_and_what_comes_too_late_is_undone() {
    let server = PostgresServer::start();
    let database = open_impatient(&server.url()).await;
    let authority = authority(&database);
    let limit = per_month(1_000);
    granted(&authority, take(1, &limit, 10)).await;
    settle(&authority).await;
    server.freeze();
    let clock = Clock::new();
    let began = clock.now();
    let asked = vec![take(1, &limit, 5), lease(1, &limit, 5, 1)];
    let answers = authority.ask_all(asked, Duration::from_millis(100)).await;
    let took = Duration::from_nanos(clock.now().since(began).ticks());
    assert_eq!(answers, [Err(Failure::TimedOut); 2]);
    assert!(took < Duration::from_millis(400), "{took:?}");
    server.thaw();
    settle(&authority).await;
    let stand = Stand::Postgres(server.into());
    assert_eq!((used(&stand, 1), count(&stand, "leases")), (10, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_locked_file_grants_too_late_is_undone() {
    let stand = Stand::sqlite();
    let database = stand.open().await;
    let authority = Arc::new(authority(&database));
    let limit = per_month(1_000);
    granted(&authority, take(1, &limit, 10)).await;
    settle(&authority).await;
    let other = rusqlite::Connection::open(stand.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let asked = vec![take(1, &limit, 5), lease(1, &limit, 5, 1)];
    let answers = authority.ask_all(asked.clone(), Duration::from_millis(100)).await;
    assert_eq!(answers, [Err(Failure::TimedOut); 2]);
    // Whoever has gone altogether has nothing either.
    let gone = tokio::spawn({
        let authority = Arc::clone(&authority);
        async move { authority.ask_all(asked, PATIENCE).await }
    });
    sleep(Duration::from_millis(50)).await;
    gone.abort();
    other.execute_batch("COMMIT").unwrap();
    settle(&authority).await;
    assert_eq!((used(&stand, 1), count(&stand, "leases")), (10, 0));
    assert_eq!(history(&database, "acme").await, 10);
    assert_eq!(authority.stats().undone, 2, "those who had gone before were not asked for");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_grants_nothing_and_counts_what_it_granted() {
    // Where nothing can be mounted, there is nothing to see.
    let Some(small) = Small::mount(4) else { return };
    let address = DatabaseAddress::Sqlite(small.folder().join("tollgate.db"));
    let database = Database::open(DatabaseSettings::new(address)).await.unwrap();
    let authority = authority(&database);
    let limit = per_month(1 << 40);
    fill(&database).await;
    let (mut taken, mut failures) = (0, 0);
    for number in 0..50_000 {
        match ask(&authority, take(number, &limit, 1)).await {
            Ok(grant) => taken += u64::from(grant.decision.is_allowed()),
            Err(failure) => {
                assert!(matches!(failure, Failure::Refused | Failure::NotAsked), "{failure}");
                failures += 1;
                if failures > 20 {
                    break;
                }
            }
        }
    }
    assert!(failures > 20, "it is never full");
    assert_eq!(authority.stats().breaker, State::Open);
    authority.tell(vec![question(70_000, &limit, Act::Book(Cost::new(7)))]);
    small.resize(16);
    settle(&authority).await;
    while !ask(&authority, take(70_001, &limit, 1)).await.is_ok_and(|grant| grant.decision.is_allowed()) {
        sleep(Duration::from_millis(5)).await;
    }
    let connection = rusqlite::Connection::open(small.folder().join("tollgate.db")).unwrap();
    let used: i64 = connection.query_row("SELECT sum(used) FROM counters", [], |row| row.get(0)).unwrap();
    assert_eq!(used, i64::try_from(taken).unwrap() + 8);
    assert_eq!(history(&database, "acme").await, taken + 8);
    let check: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
}

/// Says to this test, in a process of its own, which file to count in.
const FILE: &str = "TOLLGATE_TEST_DURABLE_FILE";

async fn count_in(path: &std::path::Path) -> u64 {
    let database =
        Database::open(DatabaseSettings::new(DatabaseAddress::Sqlite(path.to_owned()))).await.unwrap();
    let authority = authority(&database);
    let limit = per_month(1_500);
    let mut taken = 0;
    for _ in 0..400 {
        let asked: Vec<Question> = vec![take(1, &limit, 1); 2];
        for answer in authority.ask_all(asked, PATIENCE).await {
            taken += u64::from(answer.unwrap().decision.is_allowed());
        }
    }
    taken
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_share_a_file() {
    const NAME: &str = "two_processes_share_a_file";
    if let Some(path) = std::env::var_os(FILE) {
        println!("taken={}", count_in(path.as_ref()).await);
        return;
    }
    let stand = Stand::sqlite();
    drop(stand.open().await);
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", NAME, "--nocapture"])
        .env(FILE, stand.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    tollgate_testkit::real::until("the other counts", || (used(&stand, 1) > 0).then_some(()));
    // As many as they ask for together are not there, but more than either asks for.
    let here = count_in(&stand.path()).await;
    let output = tokio::task::block_in_place(|| child.wait_with_output().unwrap());
    let output = String::from_utf8(output.stdout).unwrap();
    let there = output.split("taken=").nth(1).and_then(|rest| rest.split_whitespace().next());
    let there: u64 = there.unwrap_or_else(|| panic!("{output}")).parse().unwrap();
    println!("{here} here, {there} there");
    assert_eq!((here + there, used(&stand, 1)), (1_500, 1_500));
    assert!(here >= 700 && there >= 700, "no more than 800 were asked for by each");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rights_that_the_documents_name_are_enough() {
    let server = PostgresServer::start();
    drop(open(&server.url()).await);
    let documents = include_str!("../../../docs/database.md");
    let mut statements = documents.lines().filter(|line| line.contains("tollgate_node")).peekable();
    assert!(statements.peek().is_some());
    statements.for_each(|statement| drop(server.sql(statement)));
    let url = server.url().replace("tollgate:not-a-secret@", "tollgate_node:change-me-too@");
    assert_ne!(url, server.url());
    let database = open(&url).await;
    make(&database, put(Kind::Quota, "a", "{}")).await;
    let authority = authority(&database);
    let limit = per_month(100);
    let asked = lease(1, &limit, 10, 1);
    let grant = granted(&authority, asked.clone()).await;
    granted(&authority, give_back_lease(&asked, &grant, 4)).await;
    granted(&authority, take(1, &limit, 1)).await;
    settle(&authority).await;
    assert_eq!(history(&database, "acme").await, 7);
    assert_eq!(authority.stats().transactions_failed, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_knows_what_was_used_until_then() {
    let stand = Stand::sqlite();
    let database = stand.open().await;
    let authority_before = authority(&database);
    let limit = per_month(100);
    granted(&authority_before, take(1, &limit, 5)).await;
    let out = lease(1, &limit, 20, 1);
    let grant = granted(&authority_before, out.clone()).await;
    let restored = Stand::sqlite();
    stand.sql(&format!("VACUUM INTO '{}'", restored.path().display()));
    granted(&authority_before, take(1, &limit, 30)).await;

    let database = restored.open().await;
    let authority = authority(&database);
    let seen = granted(&authority, question(1, &limit, Act::Peek(Cost::ONE))).await;
    assert_eq!((seen.decision.remaining, history(&database, "acme").await), (75, 25));
    // What was out then comes back; what was granted later has no row, and does not.
    granted(&authority, give_back_lease(&out, &grant, 20)).await;
    granted(&authority, give_back_lease(&lease(1, &limit, 9, 2), &grant, 9)).await;
    assert_eq!(used(&restored, 1), 5);
}
