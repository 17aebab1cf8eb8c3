//! `tollgate audit export`: the audit as lines of JSON, page by page, so that neither side holds it all.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command, value_parser};
use serde_json::Value;

use super::AUDIT;
use crate::admin::{Admin, with_query};
use crate::failure::Failure;

/// The longest line: two documents and what else a row has.
const LINE_BYTES_MAX: usize = 2 << 20;

pub(super) fn command() -> Command {
    Command::new("export")
        .about("Write the audit as lines of JSON, one for each change")
        .after_help(
            "Examples:\n  tollgate audit export --output audit.jsonl\n  \
             tollgate audit export --after 1000 | jq .who",
        )
        .arg(
            Arg::new("output")
                .long("output")
                .short('o')
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help("Where to; without it, to standard output"),
        )
        .arg(
            Arg::new("after")
                .long("after")
                .value_name("VERSION")
                .value_parser(value_parser!(u64))
                .default_value("0")
                .help("Only changes after this one"),
        )
}

/// Takes what comes in pieces, and passes on whole lines.
struct Lines<'a> {
    to: &'a mut dyn Write,
    /// The beginning of a line whose end has not come.
    rest: Vec<u8>,
    count: u64,
    /// The version of the last line.
    last: u64,
}

impl Lines<'_> {
    fn take(&mut self, piece: &[u8]) -> io::Result<()> {
        self.rest.extend_from_slice(piece);
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else {
            return if self.rest.len() > LINE_BYTES_MAX {
                Err(not_lines("a line without end"))
            } else {
                Ok(())
            };
        };
        let rest = self.rest.split_off(end + 1);
        for line in self.rest.split_inclusive(|byte| *byte == b'\n') {
            let row: Value = serde_json::from_slice(line).map_err(|_| not_lines("a line that is no JSON"))?;
            self.last = row["version"].as_u64().ok_or_else(|| not_lines("a line without a version"))?;
            self.count += 1;
            self.to.write_all(line)?;
        }
        self.rest = rest;
        Ok(())
    }
}

fn not_lines(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the server has sent {what}"))
}

pub(super) fn run(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let mut admin = Admin::new(matches)?;
    let after = matches.get_one("after").copied().unwrap_or(0);
    let output = matches.get_one::<PathBuf>("output");
    let mut to: Box<dyn Write> = match output {
        Some(path) => Box::new(BufWriter::new(File::create(path).map_err(Failure::Output)?)),
        None => Box::new(io::stdout().lock()),
    };
    let mut lines = Lines { to: &mut to, rest: Vec::new(), count: 0, last: after };
    let outcome = copy(&mut admin, &mut lines);
    let (count, last) = (lines.count, lines.last);
    let flushed = to.flush();
    match (outcome, flushed) {
        // Whoever reads has seen enough.
        (Err(Failure::Output(error)), _) | (Ok(()), Err(error))
            if error.kind() == io::ErrorKind::BrokenPipe => {}
        (Err(failure), _) if count > 0 => {
            eprintln!("{count} changes were written, the last is {last}: go on with --after {last}");
            return Err(failure);
        }
        (Err(failure), _) => return Err(failure),
        (Ok(()), Err(error)) => return Err(Failure::Output(error)),
        (Ok(()), Ok(())) => {}
    }
    if let Some(path) = output {
        eprintln!("{count} changes, up to version {last}, in {}", path.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Page by page, until there is nothing after the last.
fn copy(admin: &mut Admin, lines: &mut Lines<'_>) -> Result<(), Failure> {
    let is_shown = io::stderr().is_terminal() && !io::stdout().is_terminal();
    loop {
        let before = lines.count;
        let after = lines.last.to_string();
        let path = with_query(&format!("{AUDIT}/export"), &[("after", Some(&after))]);
        admin.stream(&path, &mut |piece| lines.take(piece))?;
        if lines.count == before {
            return Ok(());
        }
        if is_shown {
            eprintln!("{} changes so far, the last is {}", lines.count, lines.last);
        }
    }
}

#[cfg(test)]
mod tests;
