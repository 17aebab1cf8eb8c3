//! Proxies that ask the server under test before they let a request through: nginx, Traefik, Caddy, `HAProxy`.

use std::fs;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use tempfile::TempDir;

use super::http::Client;
use super::process::Process;
use super::venv;
use super::wait::until;

/// Where Debian has what is not in everybody's path.
const SYSTEM_FOLDERS: [&str; 3] = ["/usr/sbin", "/usr/bin", "/usr/local/sbin"];

/// A running proxy.
#[derive(Debug)]
pub struct Proxy {
    // Before the directory, in which its files lie: fields are dropped in order.
    _process: Process,
    _folder: TempDir,
    address: SocketAddr,
}

/// Below those that Linux gives to whoever asks for any.
const PORTS: std::ops::Range<u16> = 12_000..32_000;
/// How many addresses this process has looked at.
static TURN: AtomicU64 = AtomicU64::new(0);

/// A file of its configuration: the name, and the text.
type File<'a> = (&'a str, String);

impl Proxy {
    /// An address at which nobody listens: a configuration has to name it before the proxy takes it. It is none of those that the system hands out by itself, or
    /// somebody else may be given it meanwhile.
    pub fn free_address() -> SocketAddr {
        let turns = u64::from(PORTS.end - PORTS.start);
        let is_free = |address: &SocketAddr| TcpListener::bind(address).is_ok();
        let next = || {
            // Relaxed: any number that nobody has had will do.
            let turn = u64::from(std::process::id()) * 7_919 + TURN.fetch_add(1, Ordering::Relaxed);
            let port = u64::from(PORTS.start) + turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) % turns;
            SocketAddr::from(([127, 0, 0, 1], u16::try_from(port).expect("a port")))
        };
        (0..turns).map(|_| next()).find(is_free).expect("a free port")
    }

    /// nginx with this configuration, which listens at this address.
    pub fn nginx(address: SocketAddr, config: String) -> Proxy {
        Proxy::start("nginx", address, &[("nginx.conf", config)], |folder| {
            let mut command = Command::new(system_program("nginx"));
            command.arg("-c").arg(folder.join("nginx.conf")).arg("-p").arg(folder).arg("-e").arg("stderr");
            // What it would write to directories of the system goes to one of our own.
            let own = "daemon off; pid nginx.pid;";
            command.args(["-g", own]);
            command
        })
    }

    /// Traefik with this configuration and these routes.
    pub fn traefik(address: SocketAddr, config: String, routes: String) -> Proxy {
        Proxy::start("traefik", address, &[("traefik.yaml", config), ("routes.yaml", routes)], |folder| {
            let mut command = Command::new(venv::program("traefik"));
            command.arg(format!("--configFile={}", folder.join("traefik.yaml").display()));
            command
        })
    }

    /// Caddy with this Caddyfile.
    pub fn caddy(address: SocketAddr, config: String) -> Proxy {
        Proxy::start("caddy", address, &[("Caddyfile", config)], |folder| {
            let mut command = Command::new(venv::program("caddy"));
            command.args(["run", "--adapter", "caddyfile", "--config"]).arg(folder.join("Caddyfile"));
            // It keeps its state in the home directory.
            command.env("HOME", folder);
            command
        })
    }

    /// `HAProxy` with this configuration and this script.
    pub fn haproxy(address: SocketAddr, config: String, script: String) -> Proxy {
        Proxy::start("haproxy", address, &[("haproxy.cfg", config), ("tollgate.lua", script)], |folder| {
            let mut command = Command::new(system_program("haproxy"));
            command.arg("-db").arg("-f").arg(folder.join("haproxy.cfg"));
            command
        })
    }

    fn start(
        name: &'static str,
        address: SocketAddr,
        files: &[File<'_>],
        command: impl FnOnce(&Path) -> Command,
    ) -> Proxy {
        let folder = tempfile::tempdir().expect("a temporary directory");
        for (name, text) in files {
            fs::write(folder.path().join(name), text).expect("a file in a directory of our own");
        }
        let mut command = command(folder.path());
        let mut process = Process::start(name, command.current_dir(folder.path()), folder.path());
        until(&format!("{name} listens"), || {
            assert_eq!(process.ended(), None, "{name} ended before it was ready");
            TcpStream::connect(address).ok()
        });
        Proxy { _process: process, _folder: folder, address }
    }

    /// A connection to it from this address.
    pub fn client(&self, source: &str) -> Client {
        let source: IpAddr = source.parse().expect("an address");
        let client = Client::connect_from(source, self.address);
        client.unwrap_or_else(|error| panic!("no connection from {source}: {error}"))
    }
}

pub(super) fn system_program(name: &str) -> std::path::PathBuf {
    let found = SYSTEM_FOLDERS.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("no {name} on this machine: run scripts/test.sh once, which installs it"))
}
