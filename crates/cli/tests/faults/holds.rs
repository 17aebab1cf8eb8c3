//! Places that are held until they are released. They cannot be leased: who holds one has it, whoever decided.

use serde_json::{Value, json};
use tollgate_testkit::real::redis::RedisServer;
use tollgate_testkit::real::{Tollgate, until};

use crate::Consistency;
use crate::scene::{IMPATIENT, counted, launch};

/// The status of an answer, and its body.
fn post(tollgate: &Tollgate, path: &str, question: &Value) -> (u16, Value) {
    let reply = tollgate.post(path, question);
    (reply.status, serde_json::from_str(&reply.body).unwrap())
}

#[test]
fn a_place_that_is_given_too_late_is_released() {
    let redis = RedisServer::start();
    let tollgate = launch(Consistency::Exact, &format!("redis://{}", redis.address()));
    let tollgate = tollgate.flag("store-deadline", IMPATIENT).start();
    let question = json!({"policy": "held", "key": "ann"});
    let (status, first) = post(&tollgate, "/v1/acquire", &question);
    assert_eq!((status, &first["remaining"]), (200, &json!(2)), "{first:#}");
    redis.freeze();
    let (status, denied) = post(&tollgate, "/v1/acquire", &question);
    assert_eq!((status, &denied["lease"]), (503, &Value::Null), "{denied:#}");
    redis.thaw();
    until("the late place is released", || {
        let late =
            tollgate.metric(&format!("ratelimit_redis_late_grants_total{{shard=\"{}\"}}", redis.address()));
        (late == 1 && counted(&tollgate, &question) == 1).then_some(())
    });
    let (_, released) = post(&tollgate, "/v1/release", &json!({"lease": first["lease"]}));
    assert_eq!(released["released"], true);
    assert_eq!(counted(&tollgate, &question), 0);
}
