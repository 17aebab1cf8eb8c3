//! What others make of the description: schemathesis sends what it allows, and what it does not, and looks at every answer.

use std::path::Path;
use std::time::Duration;

use tollgate_testkit::real::python_for;

use crate::launch;

/// It sends some thousand requests.
const PATIENCE: Duration = Duration::from_mins(5);

#[test]
fn schemathesis_finds_nothing() {
    let server = launch().flag("admin-rate", "off").start();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/admin_api.py");
    let finished = python_for(PATIENCE, &script, &[server.admin().to_string(), server.admin_token()]);
    assert!(finished.stdout.contains("nothing found"), "{}\n{}", finished.stdout, finished.stderr);
    let errors: Vec<_> =
        server.logs().lines().filter(|line| line.contains("ERROR")).map(str::to_owned).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}
