//! Programs that others have written: Redis' tools from the system, Python, Envoy and Valkey from an environment of our own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::process::{Finished, run, run_for};

/// The workspace's own Python environment, which `scripts/test-tools.sh` makes.
const VENV: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/venv");

/// A program of the environment. A test that needs it and does not find it fails: a skipped test would look like a passed one.
pub(super) fn program(name: &str) -> PathBuf {
    let path = Path::new(VENV).join("bin").join(name);
    assert!(path.exists(), "no {name} in target/venv: run scripts/test.sh once, which installs it");
    path
}

/// The directory of a Python package of the environment.
pub(super) fn package(name: &str) -> PathBuf {
    let versions = fs::read_dir(Path::new(VENV).join("lib")).into_iter().flatten().flatten();
    let found =
        versions.map(|version| version.path().join("site-packages").join(name)).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("no {name} in target/venv: run scripts/test.sh once, which installs it"))
}

/// Runs a Python script to its end. It may import what `scripts/requirements.txt` names.
pub fn python(script: &Path, arguments: &[String]) -> Finished {
    run(Command::new(program("python")).arg("-u").arg(script).args(arguments))
}

/// The same, for a script that takes longer than most.
pub fn python_for(patience: Duration, script: &Path, arguments: &[String]) -> Finished {
    run_for(patience, Command::new(program("python")).arg("-u").arg(script).args(arguments))
}

/// Runs a tool of the system, such as `redis-cli`, to its end.
pub fn tool(name: &str, arguments: &[&str]) -> Finished {
    let found = Command::new(name).arg("--version").output();
    assert!(found.is_ok(), "no {name} on this machine: run scripts/test.sh once, which installs it");
    run(Command::new(name).args(arguments))
}
