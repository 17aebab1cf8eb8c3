//! Reservations of durable counts: any server settles them, also after the one that made them was killed, and each once.

use std::thread;

use serde_json::json;
use tollgate_testkit::real::postgres::PostgresServer;
use tollgate_testkit::real::{Signal, Tollgate};

use crate::{ask, launch, reserve};

const RULES: &str = "policies:
  tokens: {requests: 10000000, calendar: month, durable: true, local_fraction: 0}
";
const SERVERS: usize = 3;
const PAIRS: usize = 120;
const ESTIMATE: u64 = 100;

fn start(postgres: &PostgresServer) -> Tollgate {
    launch(RULES).flag("database", &postgres.url()).flag("database-deadline", "10s").start()
}

/// All that the database has counted, in counters and in the history.
fn counted(postgres: &PostgresServer) -> (u64, u64) {
    let sum = |column: &str, table: &str| {
        postgres.sql(&format!("SELECT COALESCE(SUM({column}), 0) FROM {table}")).trim().parse().unwrap()
    };
    (sum("used", "counters"), sum("counted - given_back", "usage_days"))
}

#[test]
fn any_server_settles_a_durable_reservation_once_whichever_servers_are_killed() {
    let postgres = PostgresServer::start();
    let mut servers: Vec<Tollgate> = (0..SERVERS).map(|_| start(&postgres)).collect();
    let mut used = 0;
    for round in 0..SERVERS {
        let costs: Vec<u64> = (0..PAIRS as u64).map(|pair| pair * 7 % 250).collect();
        let made: Vec<_> =
            (0..PAIRS).map(|pair| reserve(&servers[pair % SERVERS], "tokens", ESTIMATE)).collect();
        servers[round].signal(Signal::KILL);
        servers[round].wait();
        servers[round].restart();
        for (pair, (reservation, cost)) in made.iter().zip(&costs).enumerate() {
            let settle = json!({"reservation": reservation, "cost": cost});
            let (status, settled) = ask(&servers[pair / SERVERS % SERVERS], "/v1/settle", &settle);
            assert_eq!((status, &settled["charged"]), (200, &json!(cost)), "{settled}");
            let again = ask(&servers[(pair + 1) % SERVERS], "/v1/settle", &settle);
            assert_eq!(again.0, 409, "{}", again.1);
            used += cost;
        }
        assert_eq!(counted(&postgres), (used, used), "round {round}");
    }
}

#[test]
fn of_many_settlements_of_one_durable_reservation_one_succeeds() {
    let postgres = PostgresServer::start();
    let servers: Vec<Tollgate> = (0..SERVERS).map(|_| start(&postgres)).collect();
    let mut used = 0;
    for round in 0..10 {
        let reservation = reserve(&servers[round % SERVERS], "tokens", ESTIMATE);
        let statuses: Vec<(u64, u16)> = thread::scope(|scope| {
            let settle = |cost: u64| {
                let (server, body) = (
                    &servers[usize::try_from(cost).unwrap() % SERVERS],
                    json!({"reservation": reservation, "cost": cost}),
                );
                scope.spawn(move || (cost, ask(server, "/v1/settle", &body).0))
            };
            let clients: Vec<_> = [37, 88, 141, 260, 10, 99].map(settle).into();
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        let done: Vec<u64> =
            statuses.iter().filter(|(_, status)| *status == 200).map(|(cost, _)| *cost).collect();
        assert_eq!(done.len(), 1, "{statuses:?}");
        assert_eq!(statuses.iter().filter(|(_, status)| *status == 409).count(), 5, "{statuses:?}");
        used += done[0];
    }
    assert_eq!(counted(&postgres), (used, used));
}

#[test]
fn a_server_on_sqlite_settles_after_a_restart_what_it_reserved_before() {
    let mut server = launch(RULES).flag("database-deadline", "10s").start();
    let reservation = reserve(&server, "tokens", ESTIMATE);
    server.restart();
    let settle = json!({"reservation": reservation, "cost": 30});
    assert_eq!(ask(&server, "/v1/settle", &settle).0, 200);
    assert_eq!(ask(&server, "/v1/settle", &settle).0, 409);
    assert_eq!(crate::left(&server, "tokens"), 9_999_970);
}
