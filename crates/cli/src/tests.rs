//! The command line as people type it.
#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn arguments_are_well_formed() {
    command().debug_assert();
}

#[test]
fn help_and_version_are_answered() {
    for (flag, part) in [("--help", "may pass"), ("--version", env!("CARGO_PKG_VERSION"))] {
        let answer = command().try_get_matches_from(["tollgate", flag]).unwrap_err();
        assert_eq!(answer.exit_code(), 0);
        assert!(answer.to_string().contains(part), "{answer}");
    }
}

#[test]
fn what_is_unknown_is_refused_with_a_suggestion() {
    let answer = command().try_get_matches_from(["tollgate", "sevre"]).unwrap_err();
    assert_eq!(answer.exit_code(), 2);
    assert!(answer.to_string().contains("'serve'"), "{answer}");
}

#[test]
fn every_subcommand_has_help() {
    for subcommand in SUBCOMMANDS {
        let name = (subcommand.command)().get_name().to_owned();
        let answer = command().try_get_matches_from(["tollgate", &name, "--help"]).unwrap_err();
        assert_eq!(answer.exit_code(), 0, "{answer}");
    }
}

#[test]
fn a_check_needs_a_policy_or_a_domain() {
    for words in [&["check"][..], &["check", "--policy", "p"], &["check", "--domain", "d"], &["check", "a=b"]]
    {
        let answer = command().try_get_matches_from(["tollgate"].iter().chain(words));
        assert!(answer.is_err(), "{words:?}");
    }
    command().try_get_matches_from(["tollgate", "check", "--policy", "p", "--key", "k"]).unwrap();
    command().try_get_matches_from(["tollgate", "check", "--domain", "d", "a=b", "c=d"]).unwrap();
}
