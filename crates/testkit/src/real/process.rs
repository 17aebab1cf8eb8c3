//! A program that runs for a test: what it says is kept, and it does not outlive the test.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process};

use super::wait::{until, until_for};

/// How much of what a program has said is shown where a test fails.
const SHOWN_CHARS_MAX: usize = 6_000;

/// A running program.
#[derive(Debug)]
pub(super) struct Process {
    name: &'static str,
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Process {
    /// Starts a program. What it says goes to files of this directory: a pipe would fill up where nobody reads.
    pub(super) fn start(name: &'static str, command: &mut Command, folder: &Path) -> Process {
        let [stdout, stderr] = ["stdout", "stderr"].map(|stream| folder.join(format!("{name}.{stream}")));
        let file = |path: &Path| File::create(path).expect("a file in a directory of our own");
        let child = command.stdin(Stdio::null()).stdout(file(&stdout)).stderr(file(&stderr)).spawn();
        let child = child.unwrap_or_else(|error| panic!("{name} does not start ({command:?}): {error}"));
        Process { name, child, stdout, stderr }
    }

    pub(super) fn stdout(&self) -> String {
        read(&self.stdout)
    }

    pub(super) fn stderr(&self) -> String {
        read(&self.stderr)
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn signal(&self, signal: Signal) {
        let name = self.name;
        let sent = kill_process(Pid::from_child(&self.child), signal);
        sent.unwrap_or_else(|error| panic!("{name} cannot be signalled: {error}"));
        if signal == Signal::STOP {
            // Its threads stop one after the other, and until then may answer.
            until(&format!("{name} is frozen"), || self.is_frozen().then_some(()));
        }
    }

    fn is_frozen(&self) -> bool {
        let threads = fs::read_dir(format!("/proc/{}/task", self.pid())).expect("a process that lives");
        threads.flatten().all(|thread| {
            let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            // The state comes after the name, which stands in brackets and may have any letters in it.
            stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
        })
    }

    /// How it has ended, if it has.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child of ours")
    }

    /// Waits for its end.
    pub(super) fn wait(&mut self) -> ExitStatus {
        let name = self.name;
        until(&format!("{name} ends"), || self.ended())
    }

    /// The same, for one that takes longer than most.
    fn wait_for(&mut self, patience: Duration) -> ExitStatus {
        let name = self.name;
        until_for(patience, &format!("{name} ends"), || self.ended())
    }

    /// Ends it at once.
    pub(super) fn kill(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            eprintln!("== {} said:\n{}{}", self.name, end_of(&self.stdout()), end_of(&self.stderr()));
        }
    }
}

/// What a program has left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Its exit code. None if a signal ended it.
    pub code: Option<i32>,
    /// What it wrote to its standard output.
    pub stdout: String,
    /// What it wrote to its standard error.
    pub stderr: String,
}

/// Runs a program to its end, which must come by itself.
pub fn run(command: &mut Command) -> Finished {
    run_with(command, Process::wait)
}

/// The same, for one that takes longer than most.
pub(super) fn run_for(patience: Duration, command: &mut Command) -> Finished {
    run_with(command, |process| process.wait_for(patience))
}

fn run_with(command: &mut Command, wait: impl FnOnce(&mut Process) -> ExitStatus) -> Finished {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let mut process = Process::start("program", command, folder.path());
    let code = wait(&mut process).code();
    Finished { code, stdout: process.stdout(), stderr: process.stderr() }
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

fn end_of(text: &str) -> &str {
    let start = text.char_indices().rev().nth(SHOWN_CHARS_MAX).map_or(0, |(start, _)| start);
    &text[start..]
}
