//! Files that change, looked at one time after the other.
#![allow(clippy::unwrap_used, clippy::panic)]

mod secrets;

use std::fs;
use std::path::PathBuf;

use tollgate::{EngineSettings, LedgerSettings};

use super::*;
use crate::gate::GateSettings;

/// A directory of rules that is gone in the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("tollgate-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, policies: &[&str]) {
        let lines: Vec<_> =
            policies.iter().map(|name| format!("  {name}: {{requests: 1, period: 1s}}\n")).collect();
        fs::write(self.0.join("rules.yaml"), format!("policies:\n{}", lines.concat())).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn gate() -> Gate {
    let engine = EngineSettings { ledger: LedgerSettings::with_cap(8 << 20), ..EngineSettings::default() };
    Gate::new(GateSettings { engine, ..GateSettings::default() }).unwrap()
}

fn policies(gate: &Gate) -> Vec<String> {
    gate.snapshot().unwrap().policy_names().iter().map(ToString::to_string).collect()
}

#[test]
fn what_is_still_being_written_is_left_alone() {
    let (folder, gate) = (Folder::new("half"), gate());
    folder.write(&["a"]);
    let mut rules = Rules::load(folder.0.clone(), &gate).unwrap();
    // Longer each time, so that the stamps differ however coarse their time is.
    folder.write(&["a", "b"]);
    assert!(rules.refresh(false, &gate).is_none(), "just changed");
    folder.write(&["a", "b", "c"]);
    assert!(rules.refresh(false, &gate).is_none(), "changed again");
    assert_eq!(policies(&gate), ["a"]);
    assert!(rules.refresh(false, &gate).unwrap().is_ok());
    assert_eq!(policies(&gate), ["a", "b", "c"]);
    assert!(rules.refresh(false, &gate).is_none(), "nothing new");
}

#[test]
fn whoever_asks_need_not_wait() {
    let (folder, gate) = (Folder::new("asked"), gate());
    folder.write(&["a"]);
    let mut rules = Rules::load(folder.0.clone(), &gate).unwrap();
    folder.write(&["a", "b"]);
    assert!(rules.refresh(true, &gate).unwrap().is_ok());
    assert_eq!(policies(&gate), ["a", "b"]);
}

#[test]
fn a_mistake_is_told_once_and_changes_nothing() {
    let (folder, gate) = (Folder::new("bad"), gate());
    folder.write(&["a"]);
    let mut rules = Rules::load(folder.0.clone(), &gate).unwrap();
    fs::write(folder.0.join("rules.yaml"), "policies: {a: {requets: 1, period: 1s}}").unwrap();
    assert!(rules.refresh(false, &gate).is_none());
    assert!(rules.refresh(false, &gate).unwrap().is_err());
    assert!(rules.refresh(false, &gate).is_none(), "told already");
    assert_eq!(policies(&gate), ["a"]);
    fs::remove_file(folder.0.join("rules.yaml")).unwrap();
    assert!(rules.refresh(false, &gate).is_none());
    assert!(rules.refresh(false, &gate).unwrap().is_err(), "no rules at all");
    assert!(rules.refresh(false, &gate).is_none(), "told already");
    folder.write(&["a", "b"]);
    assert!(rules.refresh(false, &gate).is_none());
    assert!(rules.refresh(false, &gate).unwrap().is_ok());
    assert_eq!(policies(&gate), ["a", "b"]);
}

#[test]
fn files_appear_and_vanish() {
    let (folder, gate) = (Folder::new("files"), gate());
    folder.write(&["a"]);
    let mut rules = Rules::load(folder.0.clone(), &gate).unwrap();
    fs::create_dir(folder.0.join("more")).unwrap();
    fs::write(folder.0.join("more/other.yaml"), "policies: {z: {requests: 1, period: 1s}}").unwrap();
    fs::write(folder.0.join(".hidden.yaml"), "not: rules").unwrap();
    assert!(rules.refresh(false, &gate).is_none());
    assert!(rules.refresh(false, &gate).unwrap().is_ok());
    assert_eq!(policies(&gate), ["a", "z"]);
    fs::remove_dir_all(folder.0.join("more")).unwrap();
    assert!(rules.refresh(false, &gate).is_none());
    assert!(rules.refresh(false, &gate).unwrap().is_ok());
    assert_eq!(policies(&gate), ["a"]);
}
