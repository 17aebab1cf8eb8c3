//! Logs: to standard error, as lines for people or as JSON for machines.

use std::io::IsTerminal;

use tollgate_server::{LogFormat, Settings};
use tracing_subscriber::EnvFilter;

use crate::failure::Failure;

/// Starts logging as the settings say.
pub(crate) fn start(settings: &Settings) -> Result<(), Failure> {
    // h2 warns of every connection that it ends because of what a client does: anybody could fill the log with that.
    let level = match settings.log_level.as_str() {
        level @ ("info" | "warn") => format!("{level},h2=error"),
        other => other.to_owned(),
    };
    let filter = EnvFilter::try_new(level).map_err(|error| {
        Failure::Usage(format!("--log-level: {error}; use error, warn, info, debug, trace, or a filter such as `info,tollgate_server=debug`"))
    })?;
    let colours = std::io::stderr().is_terminal();
    let logs =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours);
    let started = match settings.log_format {
        LogFormat::Text => logs.with_target(false).try_init(),
        LogFormat::Json => logs.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| Failure::Log(error.to_string()))
}
