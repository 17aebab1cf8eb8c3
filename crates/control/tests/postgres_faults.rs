//! PostgreSQL that is killed, frozen, cut off, locked or not as it was set: what was answered holds, and nothing waits for ever.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{NOW_MS, Small, Stand, check_verifies, fill, make, put};
use tokio::time::timeout;
use tollgate_control::{ChangeError, Database, DatabaseError, DatabaseSettings, Kind};
use tollgate_testkit::real::postgres::{PostgresLaunch, PostgresServer};

async fn open(url: &str) -> Result<Database, DatabaseError> {
    Database::open(DatabaseSettings::new(url.parse().expect("an address"))).await
}

fn in_database(url: &str, name: &str) -> String {
    let (server, _) = url.rsplit_once('/').expect("a database");
    format!("{server}/{name}")
}

/// With short time-outs, so that a test need not wait long.
async fn open_impatient(url: &str) -> Database {
    let settings = DatabaseSettings {
        connect_timeout: Duration::from_millis(500),
        statement_timeout: Duration::from_secs(1),
        ..DatabaseSettings::new(url.parse().expect("an address"))
    };
    Database::open(settings).await.expect("a database")
}

/// What became of a stream of changes, by the numbers in their ids.
#[derive(Default)]
struct Stream {
    made: Vec<(u64, u64)>,
    unmade: Vec<u64>,
    unknown: Vec<u64>,
}

fn stream(database: &Arc<Database>, number: u64, stop: &Arc<AtomicBool>) -> tokio::task::JoinHandle<Stream> {
    let (database, stop) = (Arc::clone(database), Arc::clone(stop));
    tokio::spawn(async move {
        let mut stream = Stream::default();
        let mut id = number * 1_000_000;
        while !stop.load(Ordering::Relaxed) {
            id += 1;
            match database.change(put(Kind::Quota, &id.to_string(), "{}"), NOW_MS).await {
                Ok(changed) => stream.made.push((id, changed.version)),
                Err(ChangeError::Unknown(_)) => stream.unknown.push(id),
                Err(ChangeError::Away(_)) => {
                    stream.unmade.push(id);
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Err(error) => panic!("{error:?}"),
            }
        }
        stream
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_in_the_middle_of_commits_it_has_all_that_was_answered() {
    let mut server = PostgresServer::start();
    let nodes = [Arc::new(open(&server.url()).await.unwrap()), Arc::new(open(&server.url()).await.unwrap())];
    let stop = Arc::new(AtomicBool::new(false));
    let streams: Vec<_> = (0..6).map(|number| stream(&nodes[number % 2], number as u64, &stop)).collect();
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(400)).await;
        tokio::task::block_in_place(|| server.restart());
    }
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    stop.store(true, Ordering::Relaxed);
    let (mut made, mut unmade, mut unknown) = (0, 0, 0);
    let database = open(&server.url()).await.unwrap();
    for stream in streams {
        let stream = stream.await.unwrap();
        for (id, version) in &stream.made {
            let found = database.document(Kind::Quota, &id.to_string()).await.unwrap();
            assert_eq!(
                found.map(|document| document.version),
                Some(*version),
                "{id} was answered and is lost"
            );
        }
        for id in &stream.unmade {
            let found = database.document(Kind::Quota, &id.to_string()).await.unwrap();
            assert_eq!(found, None, "{id} was refused and is there");
        }
        made += stream.made.len() as u64;
        unmade += stream.unmade.len();
        unknown += stream.unknown.len() as u64;
    }
    println!("made {made}, refused {unmade}, unknown {unknown}");
    assert!(made > 100 && unmade > 0, "made {made}, refused {unmade}");
    let version = database.version().await.unwrap();
    assert!((made..=made + unknown).contains(&version), "{version} versions, {made} made, {unknown} unknown");
    check_verifies(&database, version).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frozen_it_keeps_nobody_for_ever_and_is_found_again() {
    let server = PostgresServer::start();
    let database = Arc::new(open_impatient(&server.url()).await);
    make(&database, put(Kind::Quota, "a", "{}")).await;
    let mut notices = database.noticed();
    server.freeze();
    let call = |number: u32| {
        let database = Arc::clone(&database);
        tokio::spawn(async move {
            let changed = database.change(put(Kind::Quota, &number.to_string(), "{}"), NOW_MS).await;
            let read = database.document(Kind::Quota, "a").await;
            (changed.map(drop), read.map(drop))
        })
    };
    let calls: Vec<_> = (0..20).map(call).collect();
    for waiting in calls {
        let (changed, read) =
            timeout(Duration::from_secs(15), waiting).await.expect("somebody hangs").unwrap();
        assert!(matches!(changed, Err(ChangeError::Away(_))), "{changed:?}");
        assert!(matches!(read, Err(DatabaseError::Away(_))), "{read:?}");
    }
    server.thaw();
    timeout(Duration::from_secs(15), async {
        while database.change(put(Kind::Quota, "b", "{}"), NOW_MS).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("it is not found again");
    timeout(Duration::from_secs(15), notices.changed()).await.expect("nothing is heard any more").unwrap();
    // What was refused was not made later.
    assert_eq!(database.version().await, Ok(2));
    check_verifies(&database, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_others_are_heard_of_also_after_the_connection_was_cut() {
    let server = PostgresServer::start();
    let [here, there] = [open(&server.url()).await.unwrap(), open(&server.url()).await.unwrap()];
    let mut notices = here.noticed();
    let listening = "SELECT count(*) FROM pg_stat_activity WHERE query = 'LISTEN tollgate'";
    tollgate_testkit::real::until("both listen", || (server.sql(listening) == "2").then_some(()));
    tokio::time::sleep(Duration::from_millis(100)).await;
    notices.mark_unchanged();
    make(&there, put(Kind::Quota, "a", "{}")).await;
    timeout(Duration::from_secs(1), notices.changed()).await.expect("no notice").unwrap();

    // Nothing is changed, but something may have been missed.
    notices.mark_unchanged();
    server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tollgate'");
    timeout(Duration::from_secs(5), notices.changed()).await.expect("no word of what was missed").unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    notices.mark_unchanged();
    // All other connections were cut, too, and nobody notices.
    make(&there, put(Kind::Quota, "a", "{}")).await;
    timeout(Duration::from_secs(1), notices.changed()).await.expect("no notice").unwrap();
    assert_eq!(here.version().await, Ok(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_holds_the_head_is_waited_for_but_not_for_ever() {
    let server = PostgresServer::start();
    let database = open_impatient(&server.url()).await;
    let holder = std::thread::spawn({
        let mut psql = server.tool("psql", "tollgate");
        psql.args([
            "-Xq",
            "-d",
            "tollgate",
            "-c",
            "BEGIN; UPDATE settings SET value = value WHERE name = 'head'; SELECT pg_sleep(4)",
        ]);
        move || psql.output().expect("psql")
    });
    let sleeping =
        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(4)%' AND wait_event = 'PgSleep'";
    tollgate_testkit::real::until("somebody holds it", || (server.sql(sleeping) == "1").then_some(()));
    let refused = database.change(put(Kind::Quota, "a", "{}"), NOW_MS).await;
    assert!(matches!(refused, Err(ChangeError::Slow(_))), "{refused:?}");
    assert_eq!(database.version().await, Ok(0));
    holder.join().unwrap();
    assert_eq!(make(&database, put(Kind::Quota, "a", "{}")).await.version, 1);
}

/// A question that takes too long is said to be one, and costs nobody a connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_takes_too_long_does_not_make_the_server_away() {
    let server = PostgresServer::start();
    let database = open_impatient(&server.url()).await;
    make(&database, put(Kind::Quota, "a", "{}")).await;
    let connections = "SELECT string_agg(CAST(pid AS TEXT), ' ' ORDER BY pid) FROM pg_stat_activity WHERE application_name = 'tollgate'";
    let listening = "SELECT count(*) FROM pg_stat_activity WHERE query = 'LISTEN tollgate'";
    tollgate_testkit::real::until("it listens", || (server.sql(listening) == "1").then_some(()));
    let before = server.sql(connections);
    let holder = std::thread::spawn({
        let mut psql = server.tool("psql", "tollgate");
        psql.args(["-Xq", "-d", "tollgate", "-c", "BEGIN; LOCK TABLE audit; SELECT pg_sleep(3)"]);
        move || psql.output().expect("psql")
    });
    let sleeping =
        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(3)%' AND wait_event = 'PgSleep'";
    tollgate_testkit::real::until("somebody holds it", || (server.sql(sleeping) == "1").then_some(()));
    let late = database.since(0, 10).await;
    let told = late.clone().map(drop).map_err(|error| error.to_string());
    assert!(matches!(late, Err(DatabaseError::Slow(_))), "{late:?}");
    assert!(told.is_err_and(|told| told.starts_with("the database takes too long: ")));
    // All else goes on, over the same connections.
    assert_eq!(database.version().await, Ok(1));
    assert_eq!(server.sql(connections), before);
    holder.join().unwrap();
    assert_eq!(database.since(0, 10).await.map(|rows| rows.len()), Ok(1));
    assert_eq!(server.sql(connections), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_set_wrong_is_said_without_the_password() {
    let mut server = PostgresServer::start();
    let url = server.url();
    let cases = [
        url.replace("not-a-secret", "s3cret"),
        in_database(&url, "nothing"),
        url.replace("//tollgate", "//nobody"),
    ];
    for url in cases {
        let error = open(&url).await.map(drop).unwrap_err();
        assert!(matches!(error, DatabaseError::Denied(_)), "{error:?}");
        let text = format!("{error} {error:?}");
        assert!(!text.contains("s3cret") && !text.contains("not-a-secret"), "{text}");
    }
    // A user who may look and not write.
    drop(open(&url).await.unwrap());
    server.sql("CREATE ROLE guest LOGIN PASSWORD 'not-a-secret'; GRANT SELECT ON ALL TABLES IN SCHEMA public TO guest");
    let guest = open(&url.replace("//tollgate", "//guest")).await.unwrap();
    let refused = guest.change(put(Kind::Quota, "a", "{}"), NOW_MS).await;
    assert!(matches!(refused, Err(ChangeError::Other(DatabaseError::Denied(_)))), "{refused:?}");
    assert_eq!(guest.version().await, Ok(0));
    // One that takes no changes at all.
    server.sql("ALTER ROLE tollgate SET default_transaction_read_only = on");
    let reader = open(&url).await.unwrap();
    assert_eq!(reader.version().await, Ok(0));
    let refused = reader.change(put(Kind::Quota, "a", "{}"), NOW_MS).await;
    assert!(matches!(&refused, Err(ChangeError::Away(text)) if text.contains("read-only")), "{refused:?}");
    server.kill();
    let error = open(&url).await.map(drop).unwrap_err();
    assert!(matches!(&error, DatabaseError::Away(text) if text.contains("127.0.0.1")), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("not-a-secret"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_room_it_refuses_changes_and_loses_none() {
    // It needs a file system of its own, which only root can have.
    let Some(small) = Small::mount(32) else { return };
    let server = PostgresServer::start();
    let location = small.folder().join("space");
    std::fs::create_dir(&location).unwrap();
    let given = std::process::Command::new("chown").arg("postgres").arg(&location).status();
    assert!(given.unwrap().success());
    server.sql(&format!("CREATE TABLESPACE small LOCATION '{}'", location.display()));
    server.sql("CREATE DATABASE small OWNER tollgate TABLESPACE small");
    let database = open(&in_database(&server.url(), "small")).await.unwrap();
    let made = fill(&database).await;
    assert!(made > 0);
    assert_eq!(database.version().await, Ok(made));
    check_verifies(&database, made).await;
    small.resize(64);
    assert_eq!(make(&database, put(Kind::Quota, "more", "{}")).await.version, made + 1);
    check_verifies(&database, made + 1).await;
    drop(database);
    drop(server);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_that_open_an_empty_database_at_once_make_it_once() {
    let stand = Stand::postgres();
    let opened = tokio::join!(stand.open(), stand.open(), stand.open(), stand.open());
    assert_eq!(opened.0.fleet(), opened.1.fleet());
    assert_eq!(opened.2.fleet(), opened.3.fleet());
    assert_eq!(opened.0.fleet(), opened.3.fleet());
    check_verifies(&opened.0, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_encrypted_as_the_address_says() {
    let authority = rcgen::KeyPair::generate().unwrap();
    let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let certificate = parameters.self_signed(&authority).unwrap();
    let issuer = rcgen::Issuer::from_params(&parameters, &authority);
    let key = rcgen::KeyPair::generate().unwrap();
    let server = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let server = server.signed_by(&key, &issuer).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let trusted = folder.path().join("ca.pem");
    std::fs::write(&trusted, certificate.pem()).unwrap();

    let server = PostgresLaunch::default().tls(server.pem(), key.serialize_pem()).start();
    let url = server.url();
    let full = format!("{url}?sslmode=verify-full&sslrootcert={}", trusted.display());
    let encrypted = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
        WHERE application_name = 'tollgate' AND ssl";
    for (url, is_encrypted) in [
        (format!("{url}?sslmode=disable"), false),
        (url.clone(), true),
        (format!("{url}?sslmode=require"), true),
        (full.clone(), true),
        // Whatever its name, an authority vouches for it.
        (full.replace("verify-full", "verify-ca").replace("@127.0.0.1", "@localhost"), true),
        (full.replace("verify-full", "require").replace("@127.0.0.1", "@localhost"), true),
    ] {
        let database = open(&url).await.unwrap();
        assert_eq!(database.version().await, Ok(0));
        assert_eq!(server.sql(encrypted) != "0", is_encrypted);
        drop(database);
        tollgate_testkit::real::until("connections are closed", || {
            let open = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tollgate'";
            (server.sql(open) == "0").then_some(())
        });
    }
    // Nobody vouches for it; or it is not the one that was meant; or it does not speak TLS.
    for url in [
        format!("{url}?sslmode=verify-full"),
        format!("{url}?sslmode=verify-ca"),
        full.replace("127.0.0.1", "localhost"),
    ] {
        let error = open(&url).await.map(drop).unwrap_err();
        assert!(error.to_string().contains("certificate"), "{error}");
    }
    let plain = PostgresServer::start();
    let error = open(&format!("{}?sslmode=require", plain.url())).await.map(drop).unwrap_err();
    assert!(error.to_string().contains("TLS"), "{error}");
    assert!(open(&plain.url()).await.is_ok());
}
