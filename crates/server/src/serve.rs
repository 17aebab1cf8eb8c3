//! A server from start to stop.

mod checks;
#[cfg(test)]
mod tests;

use std::fs::DirBuilder;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use thiserror::Error;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tollgate::core::{Span, Tick};
use tollgate::policy::Problems;
use tollgate::{Clock, EngineError, Keeper, LedgerSettings};
use tollgate_control::{DatabaseAddress, DatabaseError, FleetSecret, Left};
use tower::Service as _;

use self::checks::{check_folder, check_listeners, check_protected, is_local};
use crate::access::Access;
use crate::admin::{self, Api, Callers, Guard, Hosts, LoadedCallers};
use crate::client_address::AddressError;
use crate::clients::{ClientLimits, Clients};
use crate::connection;
use crate::control::Control;
use crate::drain::Stopper;
use crate::gate::{Durable, Gate};
use crate::memory::MemoryAccount;
use crate::process::{self, ConnectionBudget, DescriptorUsers};
use crate::protocol::http::WebHosts;
use crate::protocol::{http, resp, rls};
use crate::reload::{self, Kept, Reloaded, Rules};
use crate::room::{ConnectionLimit, ListenerLimits, Shared};
use crate::secret::SecretError;
use crate::settings::{AdminSettings, Listen, Settings};
use crate::store::{Store, StoreError};
use crate::tls::Tls;
use crate::workers::{self, Handler, Listener, Workers};

/// The listeners by name. The last is the admin listener; the others serve data.
pub(crate) const LISTENERS: [&str; 4] = ["http", "grpc", "resp", ADMIN];
const ADMIN: &str = "admin";
/// Connections and requests take at most this part of what counters may take, unless the operator says otherwise.
const CONNECTIONS_MEMORY_SHARE: usize = 4;
/// Open reservations take at most this part of what counters may take, and never more than the
/// library's default.
const RESERVATIONS_MEMORY_SHARE: usize = 8;
/// The same of request ids.
const REQUEST_IDS_MEMORY_SHARE: usize = 16;
/// With less, not even a few connections could be served.
const CONNECTIONS_MEMORY_MIN: usize = 4 << 20;

/// Connections of a listener that wait to be accepted. Where they are more, the kernel drops the SYN of every
/// client, which sends it again after a second. The kernel caps the number at `net.core.somaxconn`.
pub(crate) const BACKLOG: u32 = 4_096;

/// How often the ledger is tended.
const TEND_INTERVAL: Duration = Duration::from_millis(5);
/// How long a server that starts waits for the store of its counters.
const STORE_PATIENCE: Duration = Duration::from_secs(1);
/// How long a server that ends waits until the database knows all that is still to be told.
const SETTLE_PATIENCE: Duration = Duration::from_secs(2);
/// And so long until what is owed to it is on disk: a file that is locked is waited for.
const KEEP_PATIENCE: Duration = Duration::from_secs(10);
/// After how many of those wall time is looked at.
const TENDS_PER_WALL_LOOK: u32 = 200;

/// Why a server cannot start.
#[derive(Debug, Error)]
pub enum ServeError {
    /// Its rules are wrong.
    #[error("{0}")]
    Rules(Problems),
    /// Its certificates or tokens are wrong.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// Its settings of proxies contradict each other.
    #[error(transparent)]
    Addresses(#[from] AddressError),
    /// The store of its counters cannot be reached as the settings say.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The directory of its data cannot be made.
    #[error("cannot make the directory {}: {source}; name another one with `data`", .folder.display())]
    Data {
        /// Which.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The directory of its database does not exist.
    #[error("`database` names a file in the directory {}, which does not exist: make it, or name another one", .folder.display())]
    NoFolder {
        /// Which.
        folder: PathBuf,
    },
    /// It could not be asked anything.
    #[error(
        "all listeners are off: nothing could be asked of this server. Set one of `http`, `grpc`, `resp` and `admin` to an address"
    )]
    NoListener,
    /// Its database cannot be used.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// Its counters cannot be made.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// An address cannot be listened at.
    #[error("cannot listen for {what} at {address}: {source}{}", advice(.what, .source))]
    Listen {
        /// Which listener.
        what: &'static str,
        /// Where.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// Any client that reaches an address could use up limits.
    #[error(
        "refusing to serve {what} at {address}: it is open to other machines without tokens or client \
         certificates. Set `{what}_tokens`{}, or `tls_client_ca`; or, on a network that you trust, \
         `insecure_listen: true` (--insecure-listen, TOLLGATE_INSECURE_LISTEN=true)",
        token_advice(.what)
    )]
    Unprotected {
        /// Which listener.
        what: &'static str,
        /// Where.
        address: SocketAddr,
    },
    /// No threads.
    #[error("cannot start threads: {0}")]
    Threads(io::Error),
}

fn advice(what: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("; something else listens there: choose another address with --{what}, or `--{what} off`")
        }
        io::ErrorKind::PermissionDenied => "; ports below 1024 need a privilege".to_owned(),
        _ => String::new(),
    }
}

/// How the usual client of a listener shows a token.
fn token_advice(what: &str) -> &'static str {
    match what {
        "grpc" => {
            " and show one in Envoy's `grpc_service` by `initial_metadata: [{key: authorization, value: \"Bearer TOKEN\"}]`"
        }
        "http" => " and show one by `Authorization: Bearer TOKEN`",
        _ => " and show one by `AUTH TOKEN`",
    }
}

/// Where a server listens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// HTTP.
    pub http: Option<SocketAddr>,
    /// gRPC.
    pub grpc: Option<SocketAddr>,
    /// RESP.
    pub resp: Option<SocketAddr>,
    /// Metrics and health.
    pub admin: Option<SocketAddr>,
}

/// A server that runs.
pub struct Running {
    addresses: Addresses,
    gate: Arc<Gate>,
    stopper: Stopper,
    tasks: JoinSet<()>,
    limits: Vec<Arc<ConnectionLimit>>,
    drain_delay: Duration,
    drain_timeout: Duration,
    tending: Arc<AtomicBool>,
    admin_token_file: Option<PathBuf>,
    /// Kept until the end: a worker without an inbox drops the connections that it still serves.
    workers: Arc<Workers>,
}

/// Starts a server. Comes back when it listens everywhere and has its rules.
pub async fn serve(mut settings: Settings) -> Result<Running, ServeError> {
    settings.gate.addresses.check()?;
    check_listeners(&settings)?;
    check_protected(&settings)?;
    if let Some(memory) = settings.memory {
        let callers_percent = settings.gate.engine.ledger.callers_percent;
        settings.gate.engine.ledger = LedgerSettings { callers_percent, ..LedgerSettings::with_cap(memory) };
        let bytes_max = &mut settings.gate.engine.reservations.bytes_max;
        *bytes_max = (memory / RESERVATIONS_MEMORY_SHARE).min(*bytes_max);
        let bytes_max = &mut settings.gate.engine.request_ids.bytes_max;
        *bytes_max = (memory / REQUEST_IDS_MEMORY_SHARE).min(*bytes_max);
    }
    let (access, token_files) = Access::load(&settings.tokens)?;
    let gate = Gate::new(settings.gate.clone())?.with_access(access).with_web_hosts(web_hosts(&settings));
    let (tls, certificates) = Tls::load(&settings.tls, gate.clock())?;
    gate.metrics().set_certificates(tls.expiries());
    let store = Store::open(&settings.store, settings.workers, Arc::clone(gate.clock()))?;
    let gate = match store {
        Some(store) => gate.with_store(store),
        None => gate,
    };
    let gate = Arc::new(match settings.database_address() {
        DatabaseAddress::Off => gate,
        DatabaseAddress::Sqlite(_) | DatabaseAddress::Postgres(_) => {
            gate.with_database(settings.database_deadline)
        }
    });
    if let Some(secret) = FleetSecret::of_store_secret(&settings.store.secret()?) {
        gate.set_fleet_secret(&secret);
    }
    let rules = Rules::load(settings.rules.clone(), &gate).map_err(ServeError::Rules)?;
    let control = find_control(&settings, &gate).await?;
    if control.is_none() && gate.durable().is_some() && gate.engine().has_durable_limits() {
        tracing::error!(
            "there is no database, so limits that are `durable` answer by their `fail_mode`: nothing passes, unless they say otherwise"
        );
    }
    let (workers, _threads) = Workers::start(settings.workers).map_err(ServeError::Threads)?;
    if gate.store().is_some() {
        reach_store(&gate, &workers).await;
    }
    if gate.durable().is_some() {
        tokio::spawn(Gate::run_errands(Arc::downgrade(&gate), Keeper::Database));
    }
    let mut starting = Starting {
        workers: Arc::new(workers),
        tls,
        stopper: Stopper::new(),
        tasks: JoinSet::new(),
        limits: Vec::new(),
        clock: Arc::clone(gate.clock()),
        connections: Connections::new(&settings)?,
    };
    let (admin, admin_tokens) = admin(&settings, &gate, control.clone())?;
    let addresses = Addresses {
        http: starting.listen("http", settings.http, http(&gate))?,
        grpc: starting.listen("grpc", settings.grpc, grpc(&gate))?,
        resp: starting.listen("resp", settings.resp, redis(&gate))?,
        admin: starting.listen(ADMIN, settings.admin, admin)?,
    };
    let Starting { workers, stopper, mut tasks, limits, connections, .. } = starting;
    connections.log();
    gate.watch_connections(connections.shared.account, limits.clone());
    let tokens = token_files.into_iter().map(|file| file.kept(&gate));
    let secrets = certificates.into_iter().chain(tokens).chain(admin_tokens.kept).collect();
    let reloaded = Reloaded { rules, secrets };
    tasks.spawn(reload::keep_up(reloaded, Arc::clone(&gate), control.clone(), stopper.drain()));
    if let Some(control) = control {
        tasks.spawn(control.follow(stopper.drain()));
    }
    let tending = Arc::new(AtomicBool::new(true));
    tend(&gate, settings.clock_jump_delay, &tending).map_err(ServeError::Threads)?;
    gate.set_ready(true);
    let Settings { drain_delay, drain_timeout, .. } = settings;
    let admin_token_file = admin_tokens.made;
    Ok(Running {
        addresses,
        gate,
        stopper,
        tasks,
        limits,
        drain_delay,
        drain_timeout,
        tending,
        admin_token_file,
        workers,
    })
}

impl Running {
    /// Where it listens.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Where the admin token is that it has made, if nobody gave it one.
    pub fn admin_token_file(&self) -> Option<&Path> {
        self.admin_token_file.as_deref()
    }

    /// What answers.
    pub fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// Stops: says that it is not ready, waits for load balancers to notice, accepts nobody any more, lets connections finish, and gives back what it
    /// has leased.
    /// False if some did not in time.
    pub async fn stop(mut self) -> bool {
        self.gate.set_ready(false);
        tokio::time::sleep(self.drain_delay).await;
        self.stopper.stop();
        let drained = async {
            while self.tasks.join_next().await.is_some() {}
            for limit in &self.limits {
                limit.emptied().await;
            }
        };
        let is_drained = tokio::time::timeout(self.drain_timeout, drained).await.is_ok();
        if let Some(durable) = self.gate.durable() {
            self.gate.return_leases(Keeper::Database).await;
            if !durable.settle(SETTLE_PATIENCE).await {
                keep_owed(durable).await;
            }
        }
        if self.gate.store().is_some() {
            self.return_leases().await;
        }
        is_drained
    }

    /// Gives back what this process may spend of shared limits: others can have it at once then.
    async fn return_leases(&self) {
        let (gate, (sender, returned)) = (Arc::clone(&self.gate), oneshot::channel::<()>());
        let give_back = async move {
            gate.return_leases(Keeper::Store).await;
            drop(sender);
        };
        self.workers.hand_out(Box::new(move || drop(tokio::spawn(give_back)))).await;
        let _ = returned.await; // Never anything but its end.
    }
}

/// Keeps on disk what the database could not be told, and says what becomes of it.
async fn keep_owed(durable: &Durable) {
    match durable.keep(KEEP_PATIENCE).await {
        Left { kept, lost: 0 } => tracing::warn!(
            kept,
            "the database does not take what is owed to it: kept in the data directory, to be told after the next start"
        ),
        Left { kept, lost } => tracing::error!(
            kept,
            lost,
            "the database does not take what is owed to it, and not all of it could be kept in the data directory: bookings are lost"
        ),
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.tending.store(false, Ordering::Relaxed); // orders nothing else
    }
}

/// A server that does not run yet.
struct Starting {
    workers: Arc<Workers>,
    tls: Tls,
    stopper: Stopper,
    tasks: JoinSet<()>,
    limits: Vec<Arc<ConnectionLimit>>,
    clock: Arc<Clock>,
    connections: Connections,
}

impl Starting {
    fn listen(
        &mut self,
        what: &'static str,
        at: Listen,
        handler: Handler,
    ) -> Result<Option<SocketAddr>, ServeError> {
        let Listen::At(address) = at else { return Ok(None) };
        let refused = |source| ServeError::Listen { what, address, source };
        let socket = bind(address).map_err(refused)?;
        let address = socket.local_addr().map_err(refused)?;
        let door = self.tls.door(what);
        let limit = Arc::new(self.connections.limit(what, door.is_some()));
        self.limits.push(Arc::clone(&limit));
        let listener = Listener { socket, door, handler, limit, clock: Arc::clone(&self.clock) };
        self.tasks.spawn(workers::accept(listener, Arc::clone(&self.workers), self.stopper.drain()));
        Ok(Some(address))
    }
}

/// Listens at an address.
fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A server that starts again does not wait until connections of the one before are forgotten.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// The names and pages that the HTTP listener answers to. Where no token protects a local listener, a page whose
/// name points to this machine is refused by its name.
fn web_hosts(settings: &Settings) -> WebHosts {
    let is_local = matches!(settings.http, Listen::At(address) if is_local(address));
    WebHosts::new(settings.http_hosts.clone(), is_local && settings.tokens.http.is_none())
}

/// How many connections each listener may have, and what they may hold.
struct Connections {
    shared: Shared,
    budget: ConnectionBudget,
    wanted: Option<usize>,
    per_client: Option<usize>,
}

impl Connections {
    fn new(settings: &Settings) -> Result<Connections, ServeError> {
        let limits = ClientLimits {
            connection_rate: settings.connection_rate_per_client,
            exempt: settings.connections_per_client_exempt.clone(),
        };
        let clients = Arc::new(Clients::new(limits).map_err(EngineError::from)?);
        let quarter = settings.gate.engine.ledger.cap_bytes / CONNECTIONS_MEMORY_SHARE;
        let memory = settings.connections_memory.unwrap_or(quarter).max(CONNECTIONS_MEMORY_MIN);
        let shared = Shared { account: Arc::new(MemoryAccount::new(memory)), clients };
        let data_listeners = [settings.http, settings.grpc, settings.resp];
        let data_listeners = data_listeners.iter().filter(|&&at| at != Listen::Off).count();
        let users = DescriptorUsers { workers: settings.workers, store_nodes: settings.store.named_nodes() };
        let mut budget = ConnectionBudget::new(process::descriptors_max(), users, data_listeners);
        let wanted = settings.connections_max;
        budget.data = wanted.unwrap_or(process::CONNECTIONS_MAX_DEFAULT).min(budget.data);
        Ok(Connections { shared, budget, wanted, per_client: settings.connections_per_client })
    }

    /// Says once what file descriptors allow.
    fn log(&self) {
        let (descriptors, connections_max) = (process::descriptors_max(), self.budget.data);
        if self.wanted.is_some_and(|wanted| wanted > connections_max) {
            tracing::warn!(
                descriptors,
                connections_max,
                "file descriptors allow fewer connections than `connections_max`: raise the hard limit (ulimit -Hn, LimitNOFILE)"
            );
        } else {
            tracing::info!(descriptors, connections_max, "connections per listener");
        }
    }

    /// The limit of one listener.
    fn limit(&self, what: &'static str, has_tls: bool) -> ConnectionLimit {
        let is_admin = what == ADMIN;
        let connections_max = if is_admin { self.budget.admin } else { self.budget.data };
        let half = connections_max.div_ceil(2);
        let limits = ListenerLimits {
            listener: LISTENERS.iter().position(|&name| name == what).unwrap_or_default(),
            connections_max,
            per_client_max: self.per_client.filter(|_| !is_admin).unwrap_or(half),
            has_tls,
            has_reserve: is_admin,
        };
        ConnectionLimit::new(limits, self.shared.clone())
    }
}

/// Has every thread connect to the store of counters before the first request comes. A server without its store serves all the same: its
/// rules say how.
async fn reach_store(gate: &Arc<Gate>, workers: &Workers) {
    let (sender, mut reached) = mpsc::channel(workers.count());
    let gate = Arc::clone(gate);
    let reach = move || {
        let (gate, sender) = (Arc::clone(&gate), sender.clone());
        tokio::spawn(async move {
            let is_reached = match gate.store() {
                Some(store) => store.is_reached(STORE_PATIENCE).await,
                None => true,
            };
            let _ = sender.send(is_reached).await; // Nobody may want to know any more.
            drop(sender);
            let gate = Arc::downgrade(&gate);
            Gate::run_errands(gate, Keeper::Store).await;
        });
    };
    workers.on_each(reach).await;
    let mut is_reached = true;
    while let Some(by_thread) = reached.recv().await {
        is_reached &= by_thread;
    }
    if !is_reached {
        tracing::warn!("the store is out of reach: until it is there, the `fail_mode` of each rule decides");
    }
}

fn web(router: axum::Router) -> Handler {
    Arc::new(move |stream, drain| {
        let router = router.clone();
        let answer = move |request| router.clone().call(request);
        Box::pin(connection::serve(stream, answer, drain))
    })
}

/// Opens the database. A server whose directory cannot be written, and that was not told to have one, does without: what it cannot do then, it says.
async fn find_control(settings: &Settings, gate: &Arc<Gate>) -> Result<Option<Arc<Control>>, ServeError> {
    let is_wanted = settings.database.is_some() || settings.database_file().is_some_and(|file| file.exists());
    match open_control(settings, gate).await {
        Err(error) if !is_wanted => {
            tracing::warn!(%error, "there is no database, so nothing can be changed while this server runs; `database: off` says that this is meant");
            Ok(None)
        }
        opened => opened,
    }
}

/// Opens the database, if there is to be one, and applies what is in it.
async fn open_control(settings: &Settings, gate: &Arc<Gate>) -> Result<Option<Arc<Control>>, ServeError> {
    let address = settings.database_address();
    let folder = match &address {
        DatabaseAddress::Off => return Ok(None),
        // A directory that an operator names and that is not there is most often misspelt.
        DatabaseAddress::Sqlite(path) if path.parent() != Some(&*settings.data) => {
            check_folder(path)?;
            None
        }
        DatabaseAddress::Sqlite(_) | DatabaseAddress::Postgres(_) => Some(&*settings.data),
    };
    if let Some(folder) = folder {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|source| ServeError::Data { folder: folder.to_owned(), source })?;
    }
    let replica = settings.data.join("replica.db");
    Ok(Some(Arc::new(Control::open(address, replica, gate).await?)))
}

/// The admin listener, and the tokens of its API. Nobody needs one that is nowhere.
fn admin(
    settings: &Settings,
    gate: &Arc<Gate>,
    control: Option<Arc<Control>>,
) -> Result<(Handler, AdminTokens), ServeError> {
    let Listen::At(address) = settings.admin else {
        return Ok((web(axum::Router::new()), AdminTokens::default()));
    };
    let AdminSettings { tokens, hosts, rate } = &settings.admin_api;
    let loaded = match Callers::load(tokens.as_ref(), settings.admin_token_file()) {
        Err(error) if tokens.is_none() => {
            tracing::warn!(%error, "there is no token for the admin API, so it lets nobody in; set `admin_tokens`");
            LoadedCallers::nobody()
        }
        loaded => loaded?,
    };
    let LoadedCallers { callers, kept, made } = loaded;
    let guard = Guard::new(callers, Hosts::new(address, hosts.clone()), *rate).map_err(EngineError::from)?;
    let api = Api { gate: Arc::clone(gate), control, guard };
    Ok((web(admin::router(api)), AdminTokens { kept, made }))
}

/// What is left to do with the tokens of the admin API.
#[derive(Default)]
struct AdminTokens {
    kept: Option<Kept>,
    made: Option<PathBuf>,
}

fn http(gate: &Arc<Gate>) -> Handler {
    let service = http::Service::new(Arc::clone(gate));
    Arc::new(move |stream, drain| Box::pin(http::serve(stream, service.clone(), drain)))
}

fn grpc(gate: &Arc<Gate>) -> Handler {
    let services = Arc::new(rls::Services::new(Arc::clone(gate)));
    Arc::new(move |stream, drain| Box::pin(rls::serve(stream, Arc::clone(&services), drain)))
}

fn redis(gate: &Arc<Gate>) -> Handler {
    let gate = Arc::clone(gate);
    Arc::new(move |stream, drain| Box::pin(resp::serve(stream, Arc::clone(&gate), drain)))
}

/// Tends the ledger from a thread of its own, so that decisions find memory ready.
fn tend(gate: &Arc<Gate>, clock_jump_delay: Duration, tending: &Arc<AtomicBool>) -> io::Result<()> {
    let (gate, tending) = (Arc::clone(gate), Arc::clone(tending));
    let agreement = Tick::NANOSECOND.span(clock_jump_delay).unwrap_or(Span::MAX);
    let tend = move || {
        let (mut tends, mut guard) = (0_u32, gate.clock().guard().agreement(agreement));
        while tending.load(Ordering::Relaxed) {
            // First: who has stood still may not be counted any more, and leases again as soon as it is tended.
            gate.count_nodes();
            gate.engine().tend(gate.now());
            gate.end_switches();
            gate.ring();
            tends = tends.wrapping_add(1);
            if tends.is_multiple_of(TENDS_PER_WALL_LOOK) {
                gate.follow_wall_time(&mut guard);
                gate.tell_hot_keys();
            }
            thread::sleep(TEND_INTERVAL);
        }
    };
    thread::Builder::new().name("tend".to_owned()).spawn(tend)?;
    Ok(())
}
