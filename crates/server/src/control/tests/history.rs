//! A database that is not any more what it was: a backup in its place, or a standby that lacks the last changes. What is in force is what it has.

use tollgate_testkit::real::postgres::PostgresServer;

use super::*;

/// A database, and a folder for whoever uses it.
enum Place {
    Sqlite(TempDir),
    Postgres(Box<PostgresServer>, TempDir),
}

impl Place {
    fn sqlite() -> Place {
        Place::Sqlite(folder())
    }

    fn postgres() -> Place {
        Place::Postgres(Box::new(PostgresServer::start()), folder())
    }

    async fn server(&self) -> Server {
        match self {
            Place::Sqlite(folder) => server(folder.path()).await,
            Place::Postgres(postgres, folder) => {
                server_of(postgres.url().parse().unwrap(), folder.path(), Bounds::default()).await
            }
        }
    }

    /// Sets it back to version 2, as if the later ones had never been: their documents were new.
    fn set_back(&self) {
        let statements = "DELETE FROM audit WHERE version > 2; DELETE FROM documents WHERE version > 2; \
            UPDATE settings SET value = (SELECT '2 ' || hash FROM audit WHERE version = 2) WHERE name = 'head'";
        match self {
            Place::Sqlite(folder) => {
                let file = rusqlite::Connection::open(folder.path().join("tollgate.db")).unwrap();
                file.execute_batch(statements).unwrap();
            }
            Place::Postgres(postgres, _) => drop(postgres.sql(statements)),
        }
    }
}

/// Which of these tenants have the quota that they were given.
fn in_force(server: &Server, tenants: &str) -> String {
    tenants.chars().filter(|tenant| server.limit("search", &tenant.to_string()) == 50).collect()
}

async fn give(server: &Server, tenants: &str) {
    for tenant in tenants.chars() {
        server.change(Kind::Quota, &tenant.to_string(), Some(QUOTA)).await;
    }
}

async fn check_change(place: Place) {
    let server = place.server().await;
    give(&server, "abcd").await;
    server.change(Kind::Key, "id", Some(BAN)).await;
    place.set_back();
    let made = server.try_change(Kind::Quota, "n", Some(QUOTA)).await.unwrap();
    assert_eq!((made.version, server.control.applied()), (3, 3));
    assert_eq!(in_force(&server, "abcdn"), "abn", "what is there, and nothing else");
    assert!(!server.is_banned("bad"));
    give(&server, "op").await;
    assert_eq!((&*in_force(&server, "abcdnop"), server.control.applied()), ("abnop", 5));
}

#[tokio::test]
async fn a_change_is_in_force_in_a_file_that_was_set_back() {
    check_change(Place::sqlite()).await;
}

#[tokio::test]
async fn a_change_is_in_force_in_a_postgres_that_was_set_back() {
    check_change(Place::postgres()).await;
}

/// Whoever was not there finds as many versions as before, or more, and other ones.
async fn check_others(place: Place) {
    for others in ["xy", "xyz"] {
        let one = place.server().await;
        give(&one, "cd").await;
        let caught_up = place.server().await;
        place.set_back();
        give(&one, others).await;
        let stopper = Stopper::new();
        let following = tokio::spawn(Arc::clone(&caught_up.control).follow(stopper.drain()));
        until(|| in_force(&caught_up, "abcdxyz") == format!("ab{others}")).await;
        assert_eq!(caught_up.control.applied(), 2 + others.len() as u64);
        stopper.stop();
        following.await.unwrap();
        place.set_back();
    }
}

async fn check_look(place: Place) {
    let server = place.server().await;
    give(&server, "abcd").await;
    let stopper = Stopper::new();
    let following = tokio::spawn(Arc::clone(&server.control).follow(stopper.drain()));
    place.set_back();
    until(|| in_force(&server, "abcd") == "ab").await;
    assert_eq!(server.control.applied(), 2);
    stopper.stop();
    following.await.unwrap();
    drop(server);
    check_others(place).await;
}

#[tokio::test]
async fn whoever_follows_notices_that_a_file_was_set_back() {
    check_look(Place::sqlite()).await;
}

#[tokio::test]
async fn whoever_follows_notices_that_a_postgres_was_set_back() {
    check_look(Place::postgres()).await;
}

#[tokio::test]
async fn what_is_under_way_keeps_its_room_when_all_is_loaded_anew() {
    let place = Place::sqlite();
    let server = place.server().await;
    give(&server, "abcd").await;
    let step = super::super::Step::of(&Change {
        who: Who { name: "test".to_owned(), role: "admin".to_owned() },
        action: Action::PUT,
        kind: Kind::Quota,
        id: "n".to_owned(),
        body: Some(QUOTA.to_owned()),
        condition: Condition::Any,
        repeat: None,
    });
    let reserved = server.control.turns.take().await.reserve(&step).await.unwrap().unwrap();
    place.set_back();
    give(&server, "x").await;
    let turn = server.control.turns.take().await;
    assert_eq!(turn.under_way(), 1);
    drop(reserved);
    assert_eq!(turn.under_way(), 0);
}

/// A start without the database, which then comes back with another history than the copy.
#[tokio::test]
async fn a_copy_of_another_history_is_not_gone_on_from() {
    let mut place = Place::postgres();
    let server = place.server().await;
    give(&server, "abcd").await;
    let stopper = Stopper::new();
    let following = tokio::spawn(Arc::clone(&server.control).follow(stopper.drain()));
    let saved = || server.gate.metrics_text().unwrap().contains("ratelimit_config_saved_version 4");
    until(saved).await;
    stopper.stop();
    following.await.unwrap();
    drop(server);
    place.set_back();
    let Place::Postgres(postgres, _) = &mut place else { panic!("no server") };
    postgres.kill();
    let server = place.server().await;
    assert_eq!(in_force(&server, "abcd"), "abcd", "by the copy");
    let Place::Postgres(postgres, _) = &mut place else { panic!("no server") };
    postgres.restart();
    let stopper = Stopper::new();
    let following = tokio::spawn(Arc::clone(&server.control).follow(stopper.drain()));
    until(|| in_force(&server, "abcd") == "ab").await;
    stopper.stop();
    following.await.unwrap();
}
