//! Logs: to standard error, as lines for people or as JSON for machines.
//!
//! Threads that decide must never wait for the program that reads the log: one that stands still fills the pipe, and every
//! listener would hang with it. So lines go through a bounded queue to a thread that writes them. A line that finds the queue full
//! is dropped, and a later line says how many were.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use tollgate_server::{LogFormat, Settings};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::failure::Failure;

/// Lines that wait to be written.
const QUEUED_LINES_MAX: usize = 1_024;
/// A line that is longer is cut: it holds what clients send.
const LINE_BYTES_MAX: usize = 16 << 10;
/// How long a server that stops waits until its last lines are written.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// What the thread that writes is sent.
enum Message {
    Line(Vec<u8>),
    /// Answered when all lines before it are written.
    Flush(SyncSender<()>),
}

/// The way of a line into the queue.
#[derive(Clone)]
struct Queue {
    messages: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
}

/// Waits for the last lines when it is dropped.
pub(crate) struct Logging {
    messages: SyncSender<Message>,
}

impl Drop for Logging {
    fn drop(&mut self) {
        let (written, is_written) = sync_channel(1);
        // A reader that stands still does not keep the server from stopping.
        if self.messages.try_send(Message::Flush(written)).is_ok() {
            let _ = is_written.recv_timeout(FLUSH_TIMEOUT);
        }
    }
}

impl Write for Queue {
    /// Takes one line, which the subscriber writes in one piece.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut kept = line[..line.len().min(LINE_BYTES_MAX)].to_vec();
        if kept.len() < line.len() {
            kept.push(b'\n');
        }
        if let Err(TrySendError::Full(_)) = self.messages.try_send(Message::Line(kept)) {
            self.dropped.fetch_add(1, Ordering::Relaxed); // A count orders nothing.
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Queue {
    type Writer = Queue;

    fn make_writer(&self) -> Queue {
        self.clone()
    }
}

/// Starts logging as the settings say.
pub(crate) fn start(settings: &Settings) -> Result<Logging, Failure> {
    // h2 warns of every connection that it ends because of what a client does: any client could fill the log with that.
    let level = match settings.log_level.as_str() {
        level @ ("info" | "warn") => format!("{level},h2=error"),
        other => other.to_owned(),
    };
    let filter = EnvFilter::try_new(level).map_err(|error| {
        Failure::Usage(format!("--log-level: {error}; use error, warn, info, debug, trace, or a filter such as `info,tollgate_server=debug`"))
    })?;
    let (messages, queued) = sync_channel(QUEUED_LINES_MAX);
    let queue = Queue { messages: messages.clone(), dropped: Arc::default() };
    let dropped = Arc::clone(&queue.dropped);
    let thread = thread::Builder::new().name("log".to_owned());
    thread.spawn(move || write_lines(&queued, &dropped)).map_err(|error| Failure::Log(error.to_string()))?;
    let colours = io::stderr().is_terminal();
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(queue).with_ansi(colours);
    let started = match settings.log_format {
        LogFormat::Text => logs.with_target(false).try_init(),
        LogFormat::Json => logs.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| Failure::Log(error.to_string()))?;
    Ok(Logging { messages })
}

/// Writes what is queued, for as long as the process lives.
fn write_lines(queued: &Receiver<Message>, dropped: &AtomicU64) {
    for message in queued {
        match message {
            // There is no other place to complain about a closed standard error.
            Message::Line(line) => drop(io::stderr().write_all(&line)),
            Message::Flush(written) => drop(written.send(())),
        }
        let dropped = dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            tracing::warn!(dropped, "log lines were dropped: standard error is read too slowly");
        }
    }
}
