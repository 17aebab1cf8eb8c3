//! A disk without room: what is refused is said to be refused, what was taken stays, and decisions go on.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use tollgate_testkit::real::run;

use crate::client::Api;
use crate::{launch, of_policy};

/// A file system of its own in memory, with so little room.
struct Small<'a>(&'a Path);

impl Small<'_> {
    fn mount(folder: &Path) -> Small<'_> {
        fs::create_dir_all(folder).unwrap();
        let mut mount = Command::new("mount");
        let done = run(mount.args(["-t", "tmpfs", "-o", "size=1m", "tollgate-test"]).arg(folder));
        assert_eq!(done.code, Some(0), "a small file system: {}", done.stderr);
        Small(folder)
    }
}

impl Drop for Small<'_> {
    fn drop(&mut self) {
        // Lazily: somebody may still have a file open.
        run(Command::new("umount").arg("-l").arg(self.0));
    }
}

#[test]
fn a_full_disk_refuses_changes_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small");
    let _small = Small::mount(&path);
    let database = path.join("tollgate.db");
    let flag = format!("sqlite:{}", database.display());
    let mut server = launch().flag("database", &flag).flag("admin-rate", "off").start();
    let mut taken = Vec::new();
    {
        let api = Api::new(&server);
        let long = |at: u64| json!({"descriptor": format!("endpoint:{at}{}", "x".repeat(1_000)), "requests": 1, "period": "1h"});
        let refused = (0..1_000_u64).find_map(|tenant| {
            let mut overrides = vec![json!({"policy": "search", "requests": 100 + tenant, "period": "1h"})];
            overrides.extend((0..20).map(long));
            let reply = api.put(&format!("/quotas/tenant-{tenant}"), &json!({"overrides": overrides}));
            if reply.status >= 300 {
                return Some(reply);
            }
            taken.push(tenant);
            None
        });
        let refused = refused.expect("there is no room for a thousand");
        assert_eq!(refused.status, 503, "{}", refused.body);
        let says = |part: &str| assert!(refused.body.contains(part), "{part}: {}", refused.body);
        says("full");
        says("nothing was changed");
        assert!(taken.len() > 3, "{taken:?}");
        assert_eq!(api.check(&of_policy("search", "anybody")), 200, "decisions go on");
    }

    server.restart();
    let api = Api::new(&server);
    for &tenant in &taken {
        let record = api.read(&format!("/quotas/tenant-{tenant}"));
        assert_eq!(record["overrides"][0]["requests"], 100 + tenant);
    }
    assert_eq!(api.read("/audit/verify")["rows"], taken.len());
    let check = "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute('PRAGMA integrity_check').fetchone()[0])";
    let checked = run(Command::new("python3").args(["-c", check]).arg(&database));
    assert_eq!(checked.stdout.trim(), "ok", "{}", checked.stderr);
}
