//! The `tollgate` command.

use clap::Parser;

/// Decides, for every request of an API, whether it may pass.
///
/// The rate limiting core and the in-process ledger are in place; the server that puts them behind gRPC, HTTP and
/// RESP is the next thing to come.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, arg_required_else_help = true)]
struct Command {}

fn main() {
    Command::parse();
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn arguments_are_well_formed() {
        Command::command().debug_assert();
    }

    #[test]
    fn help_and_version_are_answered() {
        for (flag, part) in [("--help", "may pass"), ("--version", env!("CARGO_PKG_VERSION"))] {
            let answer = Command::try_parse_from(["tollgate", flag]).unwrap_err();
            assert_eq!(answer.exit_code(), 0);
            assert!(answer.to_string().contains(part), "{answer}");
        }
    }

    #[test]
    fn what_is_unknown_is_refused() {
        let answer = Command::try_parse_from(["tollgate", "sevre"]).unwrap_err();
        assert_eq!(answer.exit_code(), 2);
        assert!(answer.to_string().contains("sevre"), "{answer}");
    }
}
