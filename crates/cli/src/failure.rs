//! What went wrong, told to whoever typed the command.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use thiserror::Error;
use tollgate::policy::Problems;
use tollgate_server::ServeError;

use crate::admin::Refusal;

/// Why a command has failed.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    #[error("{0}")]
    Problems(Problems),
    #[error("no rules at `{path}`{hint}")]
    NoRules { path: PathBuf, hint: &'static str },
    #[error("{given_by}: {error}")]
    Setting { given_by: String, error: tollgate_server::SettingError },
    #[error("cannot read `{path}`: {error}")]
    Read { path: PathBuf, error: io::Error },
    #[error("{0}")]
    Serve(#[from] ServeError),
    #[error("cannot start: {0}")]
    Runtime(io::Error),
    #[error("cannot log: {0}")]
    Log(String),
    #[error("{0}")]
    Usage(String),
    #[error(
        "no answer from {server}: {reason}\nIs it running? `tollgate serve` starts one; `--server` names another."
    )]
    NoAnswer { server: String, reason: String },
    #[error("{0}")]
    Refused(Refusal),
    /// What was typed is right, and still it cannot be done.
    #[error("{0}")]
    Failed(String),
    #[error("{error}{hint}")]
    Load { error: tollgate_load::LoadError, hint: &'static str },
    #[error("cannot write: {0}")]
    Output(io::Error),
}

impl Failure {
    /// 2 for what was typed wrong, 1 for the rest.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Failure::Usage(_) | Failure::Setting { .. } => ExitCode::from(2),
            _ => ExitCode::FAILURE,
        }
    }
}
