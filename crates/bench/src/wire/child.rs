//! The servers that are measured, as processes that end with the benchmark.

use std::collections::HashMap;
use std::error::Error;
use std::io::{self, BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{self, Command, Stdio};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use super::core::Cores;
use crate::timer::Stopwatch;

/// How long a server may take to listen.
const START_SECONDS_MAX: f64 = 10.0;
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// A server, and where it listens.
pub(crate) struct Child {
    process: process::Child,
    addresses: HashMap<String, SocketAddr>,
}

/// All of them.
pub(crate) struct Peers {
    pub(super) tollgate: Child,
    pub(super) redis: Child,
    pub(super) tonic: Child,
    pub(super) hyper: Child,
    /// Where it is installed.
    pub(super) throttlecrab: Option<Child>,
    _folder: TempDir,
}

impl Peers {
    /// Starts all servers on their core.
    pub(super) fn start(cores: &Cores) -> Result<Peers, Box<dyn Error>> {
        cores.serve()?;
        let folder = tempfile::tempdir()?;
        Ok(Peers {
            tollgate: ours("tollgate")?,
            tonic: ours("tonic")?,
            hyper: ours("hyper")?,
            redis: redis(&folder)?,
            throttlecrab: throttlecrab()?,
            _folder: folder,
        })
    }
}

impl Child {
    /// Where it listens for this protocol.
    pub(super) fn address(&self, protocol: &str) -> String {
        self.addresses.get(protocol).map_or_else(String::new, SocketAddr::to_string)
    }

    /// Its process.
    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// This executable, as a server. It says where it listens, and ends when its standard input does: with us, whatever ends us.
fn ours(kind: &str) -> Result<Child, Box<dyn Error>> {
    let mut command = Command::new(std::env::current_exe()?);
    let command = command.args(["wire-server", kind]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = command.spawn()?;
    let mut line = String::new();
    if let Some(stdout) = process.stdout.take() {
        BufReader::new(stdout).read_line(&mut line)?;
    }
    let addresses: HashMap<String, SocketAddr> = line
        .split_whitespace()
        .filter_map(|word| word.split_once('='))
        .filter_map(|(name, address)| Some((name.to_owned(), address.parse().ok()?)))
        .collect();
    let child = Child { process, addresses };
    if child.addresses.is_empty() {
        Err(format!("the {kind} server did not start").into())
    } else {
        Ok(child)
    }
}

fn redis(folder: &TempDir) -> Result<Child, Box<dyn Error>> {
    let address = free_address()?;
    let mut command = Command::new("redis-server");
    command
        .args([
            "--port",
            &address.port().to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
        ])
        .arg("--dir")
        .arg(folder.path());
    let started = theirs(&mut command, address);
    started
        .map_err(|error| format!("redis-server is one of the peers, and must be on the PATH: {error}").into())
}

/// As it is published, if it is installed. It has a thread pool, which is told to have one thread.
fn throttlecrab() -> Result<Option<Child>, Box<dyn Error>> {
    let address = free_address()?;
    let mut command = Command::new("throttlecrab-server");
    command
        .args(["--redis", "--redis-host", "127.0.0.1", "--redis-port", &address.port().to_string()])
        .args(["--store-capacity", &super::questions::KEYS.to_string(), "--log-level", "error"])
        .env("TOKIO_WORKER_THREADS", "1");
    match theirs(&mut command, address) {
        Err(error) if error.downcast_ref::<io::Error>().is_some_and(is_missing) => Ok(None),
        started => started.map(Some),
    }
}

fn is_missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

/// Somebody else's program, once it listens at this address.
fn theirs(command: &mut Command, address: SocketAddr) -> Result<Child, Box<dyn Error>> {
    let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let mut child = Child { process, addresses: HashMap::from([("resp".to_owned(), address)]) };
    let waiting = Stopwatch::start();
    while TcpStream::connect(address).is_err() {
        if child.process.try_wait()?.is_some() || waiting.elapsed_secs() > START_SECONDS_MAX {
            return Err(format!("{} does not listen at {address}", command.get_program().display()).into());
        }
        thread::sleep(LOOK_INTERVAL);
    }
    Ok(child)
}

/// A port that is free now, for programs that cannot choose one themselves.
fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind("127.0.0.1:0")?.local_addr()
}
