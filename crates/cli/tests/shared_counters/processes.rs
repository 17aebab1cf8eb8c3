//! Several processes share counters.

use std::thread;

use tollgate_testkit::real::Tollgate;
use tollgate_testkit::real::redis::{RedisClient, RedisServer, Reply};

use crate::launch;

const RULES: &str = "
policies:
  bucket: {requests: 1, period: 1h, burst: 100, fail_mode: closed}
  log: {requests: 100, period: 1h, algorithm: sliding_log, fail_mode: closed}
  parts: {requests: 100, period: 10h, sub_windows: 10, fail_mode: closed}
";
const LIMIT: usize = 100;
const PROCESSES: usize = 4;
/// Each process alone asks for half of the limit, so all of them together for twice as much.
const ASKS: usize = LIMIT / 2;

/// Asks for all of these in turn, so often, without waiting for answers. Tells how often each was admitted.
fn ask_all(tollgate: &Tollgate, subjects: &[(&str, &str)]) -> Vec<usize> {
    let mut client = RedisClient::connect(tollgate.resp()).unwrap();
    for _ in 0..ASKS {
        for (policy, key) in subjects {
            client.send(&[b"TG.CHECK", policy.as_bytes(), key.as_bytes()]).unwrap();
        }
    }
    let mut admitted = vec![0; subjects.len()];
    for place in (0..ASKS).flat_map(|_| 0..subjects.len()) {
        let Reply::Array(answer) = client.receive().unwrap() else {
            panic!("no answer");
        };
        admitted[place] += usize::try_from(answer[0].integer()).unwrap();
    }
    admitted
}

#[test]
fn four_processes_admit_exactly_what_the_limit_allows() {
    let redis = RedisServer::start();
    let store = format!("redis://{}", redis.address());
    let servers: Vec<Tollgate> = (0..PROCESSES).map(|_| launch(RULES, &store).start()).collect();
    let subjects: Vec<(&str, &str)> = ["bucket", "log", "parts"]
        .iter()
        .flat_map(|policy| ["ann", "bob", "carl"].map(|key| (*policy, key)))
        .collect();
    let admitted: Vec<Vec<usize>> = thread::scope(|scope| {
        let asking: Vec<_> =
            servers.iter().map(|server| scope.spawn(|| ask_all(server, &subjects))).collect();
        asking.into_iter().map(|asked| asked.join().unwrap()).collect()
    });
    for (place, subject) in subjects.iter().enumerate() {
        let by_process: Vec<usize> = admitted.iter().map(|admitted| admitted[place]).collect();
        assert_eq!(by_process.iter().sum::<usize>(), LIMIT, "{subject:?}, by process: {by_process:?}");
    }
}
