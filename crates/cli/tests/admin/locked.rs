//! A database file that another process keeps locked: a change is refused after five seconds in all, however many wait.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::json;
use tollgate::Clock;
use tollgate_testkit::real::Tollgate;

use crate::launch;

/// What the documents promise, and what a busy machine may add.
const REFUSED_AFTER: Duration = Duration::from_secs(5);
const REFUSED_AFTER_MAX: Duration = Duration::from_secs(8);

/// A process that has the file for itself until it ends.
struct Locked(Child);

impl Locked {
    fn new(path: &Path) -> Locked {
        let script = "import sqlite3, sys, time\n\
            file = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=20)\n\
            file.execute('BEGIN IMMEDIATE')\n\
            print('locked', flush=True)\n\
            time.sleep(600)";
        let mut python = Command::new("python3");
        let mut child = python.args(["-c", script]).arg(path).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "locked\n");
        Locked(child)
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn change(server: &Tollgate, tenant: &str) -> (u16, String, Duration) {
    let (path, body) = (format!("/admin/v1/quotas/{tenant}"), json!({ "tier": "gold" }));
    let clock = Clock::new();
    let asked_at = clock.steady();
    let reply = server.ask_admin("PUT", &path, Some(&body));
    let waited = clock.steady().since(asked_at);
    (reply.status, reply.body, Duration::from_nanos(waited.ticks()))
}

#[test]
fn changes_on_a_locked_file_are_refused_after_five_seconds_each() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tollgate.db");
    let server = launch().flag("database", &format!("sqlite:{}", path.display())).start();
    let locked = Locked::new(&path);
    // The second and the third come while the first waits, and the server wants to write meanwhile, too.
    let refused: Vec<_> = thread::scope(|scope| {
        let changes: Vec<_> = (0..3)
            .map(|number| {
                let server = &server;
                scope.spawn(move || {
                    thread::sleep(Duration::from_millis(1_500 * number));
                    change(server, &format!("tenant-{number}"))
                })
            })
            .collect();
        changes.into_iter().map(|change| change.join().unwrap()).collect()
    });
    for (status, body, waited) in &refused {
        assert_eq!(*status, 503, "{body}");
        assert!(body.contains("the database is locked by others"), "{body}");
        assert!(*waited < REFUSED_AFTER_MAX, "{refused:?}");
    }
    assert!(refused[0].2 >= REFUSED_AFTER, "{refused:?}");
    drop(locked);
    assert_eq!(change(&server, "tenant-9").0, 201);
}
