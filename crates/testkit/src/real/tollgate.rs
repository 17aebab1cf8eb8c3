//! The server under test, as a process.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::http::{Client, Reply, fetch};
use super::process::{Process, Signal};
use super::wait::{PATIENCE, until, until_for};

const LISTENERS: [&str; 4] = ["http", "grpc", "resp", "admin"];

/// How a server is to be started. Only a test of the command's own crate knows where the command is, so it is told.
#[derive(Debug)]
pub struct Launch {
    binary: PathBuf,
    folder: TempDir,
    /// Flags by name, and their values.
    flags: Vec<(String, String)>,
    variables: Vec<(String, String)>,
    /// The hard limit of its file descriptors, if it is to have one.
    descriptors: Option<u32>,
    /// How long it may take to be ready.
    patience: Duration,
}

impl Launch {
    /// A server with all listeners at ports that the system chooses, and an empty directory of rules.
    pub fn new(binary: &str) -> Launch {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let rules = folder.path().join("rules");
        fs::create_dir(&rules).expect("a directory of our own");
        let mut flags: Vec<(String, String)> =
            LISTENERS.map(|name| (name.to_owned(), "127.0.0.1:0".to_owned())).into();
        flags.push(("rules".to_owned(), rules.display().to_string()));
        Launch {
            binary: binary.into(),
            folder,
            flags,
            variables: Vec::new(),
            descriptors: None,
            patience: PATIENCE,
        }
    }

    /// With this file of rules.
    #[must_use]
    pub fn rules(self, name: &str, text: &str) -> Launch {
        write_atomically(self.folder.path(), &self.folder.path().join("rules").join(name), text);
        self
    }

    /// With this flag, instead of what it says otherwise.
    #[must_use]
    pub fn flag(self, name: &str, value: &str) -> Launch {
        let mut launch = self.without(name);
        launch.flags.push((name.to_owned(), value.to_owned()));
        launch
    }

    /// With at most so many file descriptors.
    #[must_use]
    pub fn descriptors(self, count: u32) -> Launch {
        Launch { descriptors: Some(count), ..self }
    }

    /// Without this flag.
    #[must_use]
    pub fn without(mut self, name: &str) -> Launch {
        self.flags.retain(|(flag, _)| flag != name);
        self
    }

    /// With this environment variable. It gets none but these.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> Launch {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With so much time to be ready, for one that has much to read.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Launch {
        self.patience = patience;
        self
    }

    /// Its directory, in which it starts, and in which a directory `rules` lies.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The command that starts it.
    pub fn command(&self) -> Command {
        let mut command = match self.descriptors {
            None => Command::new(&self.binary),
            Some(count) => {
                let mut shell = Command::new("/bin/sh");
                shell.arg("-c").arg(format!("ulimit -n {count}; exec \"$0\" \"$@\"")).arg(&self.binary);
                shell
            }
        };
        command.arg("serve").args(self.flags.iter().map(|(name, value)| format!("--{name}={value}")));
        command.current_dir(self.folder.path()).env_clear();
        // The names in `Host` of what tests send by hand.
        command.env("TOLLGATE_HTTP_HOSTS", "test,hostile,x");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts it. It is ready when this comes back.
    pub fn start(self) -> Tollgate {
        let (process, addresses) = start(&self);
        Tollgate { launch: self, process, addresses }
    }
}

/// A running server.
#[derive(Debug)]
pub struct Tollgate {
    // Before the launch, whose directory its files lie in: fields are dropped in order.
    process: Process,
    launch: Launch,
    addresses: Vec<(&'static str, SocketAddr)>,
}

impl Tollgate {
    /// Where HTTP is served.
    pub fn http(&self) -> SocketAddr {
        self.address("http")
    }

    /// Where gRPC is served.
    pub fn grpc(&self) -> SocketAddr {
        self.address("grpc")
    }

    /// Where Redis clients are served.
    pub fn resp(&self) -> SocketAddr {
        self.address("resp")
    }

    /// Where metrics are served.
    pub fn admin(&self) -> SocketAddr {
        self.address("admin")
    }

    /// Asks over HTTP, on a connection of its own.
    pub fn post(&self, path: &str, body: &Value) -> Reply {
        let client = Client::connect(self.http());
        client.unwrap_or_else(|error| panic!("no connection: {error}")).post(path, &body.to_string())
    }

    /// The token that it has made for its admin API.
    pub fn admin_token(&self) -> String {
        let path = self.launch.folder().join("data/admin.token");
        let token = fs::read_to_string(&path);
        token.unwrap_or_else(|error| panic!("{}: {error}", path.display())).trim().to_owned()
    }

    /// Asks its admin API, with the token that it has made, on a connection of its own.
    pub fn ask_admin(&self, method: &str, path: &str, body: Option<&Value>) -> Reply {
        let authorization = format!("Bearer {}", self.admin_token());
        let mut headers = vec![("host", "localhost"), ("authorization", &*authorization)];
        headers.extend(body.map(|_| ("content-type", "application/json")));
        let body = body.map(Value::to_string).unwrap_or_default();
        let reply =
            Client::connect(self.admin()).and_then(|mut client| client.send(method, path, &headers, &body));
        reply.unwrap_or_else(|error| panic!("no answer to {method} {path}: {error}"))
    }

    /// The value of a metric: what comes after a line's beginning.
    pub fn metric(&self, series: &str) -> u64 {
        let text = fetch(self.admin(), "/metrics").expect("metrics").body;
        let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok());
        value.unwrap_or_else(|| panic!("no {series} among\n{text}"))
    }

    /// The sum of a metric over all series that have this label, such as `kind="lost"`. 0 if there are none.
    pub fn metric_sum(&self, name: &str, label: &str) -> u64 {
        let text = fetch(self.admin(), "/metrics").expect("metrics").body;
        let value = |line: &str| {
            let (series, value) = line.strip_prefix(name)?.rsplit_once(' ')?;
            let has_name = series.is_empty() || series.starts_with('{');
            value.parse::<u64>().ok().filter(|_| has_name && series.contains(label))
        };
        text.lines().filter_map(value).sum()
    }

    /// Writes a file of rules, whole: nobody sees half of it.
    pub fn write_rules(&self, name: &str, text: &str) {
        write_atomically(self.launch.folder(), &self.rules().join(name), text);
    }

    /// Its directory of rules.
    pub fn rules(&self) -> PathBuf {
        self.launch.folder().join("rules")
    }

    /// What it has logged.
    pub fn logs(&self) -> String {
        self.process.stderr()
    }

    /// Waits until this part of a line is logged.
    pub fn wait_for_log(&self, part: &str) {
        until(&format!("the log says {part:?}"), || self.logs().contains(part).then_some(()));
    }

    /// What it has said to whoever started it.
    pub fn greeting(&self) -> String {
        self.process.stdout()
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Waits for its end, and says with which exit code it came. None if a signal ended it.
    pub fn wait(&mut self) -> Option<i32> {
        self.process.wait().code()
    }

    /// Ends it at once, and starts another that listens where this one did.
    pub fn restart(&mut self) {
        self.process.kill();
        for (name, address) in &self.addresses {
            self.launch.flags.retain(|(flag, _)| flag != name);
            self.launch.flags.push(((*name).to_owned(), address.to_string()));
        }
        (self.process, self.addresses) = start(&self.launch);
    }

    fn address(&self, listener: &str) -> SocketAddr {
        let found = self.addresses.iter().find(|(name, _)| *name == listener);
        found.unwrap_or_else(|| panic!("{listener} is off")).1
    }
}

fn start(launch: &Launch) -> (Process, Vec<(&'static str, SocketAddr)>) {
    let mut process = Process::start("tollgate", &mut launch.command(), launch.folder());
    let addresses = until_for(launch.patience, "tollgate says where it listens", || {
        let ended = process.ended();
        assert_eq!(ended, None, "tollgate ended before it was ready");
        addresses(&process.stdout())
    });
    // Only in the clear can it be asked here; otherwise what it has said must do.
    let is_plain =
        !process.stdout().lines().any(|line| line.trim().starts_with("http ") && line.contains("TLS"));
    if let Some((_, http)) = addresses.iter().find(|(name, _)| *name == "http" && is_plain) {
        until_for(launch.patience, "tollgate is ready", || {
            Some(fetch(*http, "/readyz").ok()?.status == 200).filter(|ready| *ready)
        });
    }
    (process, addresses)
}

/// The addresses of a greeting, once it is complete.
fn addresses(greeting: &str) -> Option<Vec<(&'static str, SocketAddr)>> {
    if let Ok(said) = serde_json::from_str::<Value>(greeting) {
        let address = |name| said[name].as_str()?.parse::<SocketAddr>().ok();
        return Some(
            LISTENERS.into_iter().filter_map(|name| Some((name, reachable(address(name)?)))).collect(),
        );
    }
    let mut addresses = Vec::new();
    for name in LISTENERS {
        let mut words = greeting.lines().map(str::split_whitespace).find_map(|mut words| {
            let first = words.next();
            (first == Some(name)).then_some(words)
        })?;
        // "off" is no address; half a line is none either, but then the last line is missing.
        if let Ok(address) = words.next()?.parse::<SocketAddr>() {
            addresses.push((name, reachable(address)));
        }
    }
    Some(addresses)
}

/// Where to find a server that listens everywhere.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = if address.ip().is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { address.ip() };
    SocketAddr::new(ip, address.port())
}

fn write_atomically(folder: &Path, path: &Path, text: &str) {
    let draft = folder.join("draft");
    let written = fs::write(&draft, text).and_then(|()| fs::rename(&draft, path));
    written.unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
}
