//! Counters in a Redis that speaks TLS, knows users, and wants a password.

use std::fs;
use std::path::Path;

use serde_json::json;
use tollgate_testkit::real::redis::{RedisLaunch, RedisServer, Reply};
use tollgate_testkit::real::{Launch, Proxy, Tollgate};

use crate::authority::Authority;
use crate::launch;

const RULES: &str = "
policies:
  ten: {requests: 1, period: 1h, burst: 10, fail_mode: closed}
";

/// A Redis that lets in whom this authority vouches for, and where.
fn guarded(authority: &Authority, folder: &Path) -> (RedisServer, String) {
    authority.write(folder, "ca");
    authority.vouch_for("localhost").write(folder, "redis");
    let place = Proxy::free_address();
    let path = |name: &str| folder.join(name).display().to_string();
    let redis = RedisLaunch::redis()
        .setting(&format!("tls-port {}", place.port()))
        .setting(&format!("tls-cert-file {}", path("redis.pem")))
        .setting(&format!("tls-key-file {}", path("redis.key")))
        .setting(&format!("tls-ca-cert-file {}", path("ca.pem")))
        .start();
    let made = redis.client().run("ACL SETUSER tollgate on >s3cret ~tollgate:* +@all -@admin");
    assert_eq!(made, Reply::Simple("OK".to_owned()));
    (redis, format!("rediss://{place}"))
}

/// A server that shows a certificate of the authority and has this password in a file.
fn as_user(authority: &Authority, store: &str, password: &str) -> Launch {
    let launch = launch(RULES, store);
    authority.write(launch.folder(), "ca");
    authority.vouch_for("tollgate").write(launch.folder(), "own");
    fs::write(launch.folder().join("password"), format!("{password}\n")).unwrap();
    launch
        .flag("store-user", "tollgate")
        .flag("store-password", "@password")
        .flag("store-tls-ca", "ca.pem")
        .flag("store-tls-certificate", "own.pem")
        .flag("store-tls-key", "own.key")
        .flag("log-level", "trace")
}

/// The status of one question, and what it says of who decided.
fn ask(tollgate: &Tollgate) -> (u16, Option<String>) {
    let reply = tollgate.post("/v1/check", &json!({"policy": "ten", "key": "ann"}));
    (reply.status, reply.header("x-tollgate-reason").map(str::to_owned))
}

#[test]
fn over_tls_as_a_user_whose_password_is_in_a_file() {
    let authority = Authority::new("redis");
    let folder = tempfile::tempdir().unwrap();
    let (redis, store) = guarded(&authority, folder.path());
    let [first, second] = [(); 2].map(|()| as_user(&authority, &store, "s3cret").start());
    for server in [&first, &second].iter().cycle().take(10) {
        assert_eq!(ask(server), (200, None));
    }
    assert_eq!([ask(&first), ask(&second)], [(429, None), (429, None)]);
    assert!(redis.client().run("DBSIZE").integer() > 0);

    let wrong = as_user(&authority, &store, "hunter2").start();
    assert_eq!(ask(&wrong), (503, Some("fail_closed: out of reach".to_owned())));
    let stranger = as_user(&Authority::new("stranger"), &store, "s3cret").start();
    assert_eq!(ask(&stranger), (503, Some("fail_closed: out of reach".to_owned())));
    wrong.wait_for_log("WRONGPASS");
    for logs in [first.logs(), second.logs(), wrong.logs(), stranger.logs()] {
        assert!(!logs.contains("s3cret") && !logs.contains("hunter2"), "a password is in the logs:\n{logs}");
    }
}
