//! Budgets of descriptors and memory, from what the system says.
#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn listeners_share_few_descriptors_and_leave_a_reserve() {
    let ConnectionBudget { data, admin } = ConnectionBudget::new(1_024, 3);
    assert_eq!((data, admin), (277, 64));
    assert!(3 * data + admin + 128 <= 1_024);
    assert_eq!(ConnectionBudget::new(0, 3).data, CONNECTIONS_MIN);
    assert_eq!(ConnectionBudget::new(10_000, 0).data, 10_000 - DESCRIPTORS_RESERVED);
}

#[test]
fn the_memory_of_the_machine_is_read() {
    assert_eq!(machine_bytes("MemTotal:       24624452 kB\nMemFree: 1 kB\n"), Some(24_624_452 << 10));
    assert_eq!(machine_bytes("MemFree: 1 kB\n"), None);
    assert_eq!(machine_bytes(""), None);
}

#[test]
fn the_least_limit_of_the_groups_around_this_process_counts() {
    let root = tempfile::tempdir().unwrap();
    let inner = root.path().join("outer/inner");
    fs::create_dir_all(&inner).unwrap();
    assert_eq!(limit_of_groups(root.path(), "0::/outer/inner\n"), None);
    fs::write(inner.join("memory.max"), "max\n").unwrap();
    assert_eq!(limit_of_groups(root.path(), "0::/outer/inner\n"), None);
    fs::write(root.path().join("outer/memory.max"), "536870912\n").unwrap();
    assert_eq!(limit_of_groups(root.path(), "0::/outer/inner\n"), Some(512 << 20));
    fs::write(inner.join("memory.max"), "1048576\n").unwrap();
    assert_eq!(limit_of_groups(root.path(), "0::/outer/inner\n"), Some(1 << 20));
    assert_eq!(limit_of_groups(root.path(), "0::/elsewhere\n"), None);
}

#[test]
fn limits_of_the_first_version_of_control_groups_are_read() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("memory/box")).unwrap();
    fs::write(root.path().join("memory/box/memory.limit_in_bytes"), "268435456\n").unwrap();
    assert_eq!(limit_of_groups(root.path(), "5:cpu:/box\n4:memory:/box\n"), Some(256 << 20));
}

#[test]
fn the_default_is_at_most_one_gibibyte() {
    assert!((1..=MEMORY_DEFAULT_MAX).contains(&default_memory_bytes()));
}
