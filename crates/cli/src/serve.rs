//! `tollgate serve`: the server, from its first line to its last.

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tollgate_server::{Addresses, Listen, LogFormat, Running, Settings, TlsMode, TlsModes, TokenSettings};

use crate::failure::Failure;
use crate::{logs, settings};

pub(crate) fn command() -> Command {
    Command::new("serve")
        .about("Run the server")
        .long_about(
            "Run the server: gRPC for Envoy, HTTP, and RESP for Redis clients.\n\n\
             Settings come from tollgate.yaml, then environment variables, then flags; later ones win. Rules are reloaded when \
             their files change, and on SIGHUP. SIGTERM and SIGINT stop the server gracefully.",
        )
        .args(settings::args())
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let settings = settings::gather(matches)?;
    settings::ignored::check(&settings)?;
    if !settings.rules.exists() {
        let hint = match matches.value_source("rules") {
            Some(_) => "",
            None => {
                ": name them with --rules PATH, or start where a `tollgate.yaml` or a directory `rules` is"
            }
        };
        return Err(Failure::NoRules { path: settings.rules, hint });
    }
    let _logging = logs::start(&settings)?;
    tollgate_server::prepare();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(Failure::Runtime)?;
    let served = runtime.block_on(serve(settings));
    // Whoever still reads rules from a file system that hangs is not waited for.
    runtime.shutdown_background();
    served
}

async fn serve(settings: Settings) -> Result<ExitCode, Failure> {
    let mut terminate = signal(SignalKind::terminate()).map_err(Failure::Runtime)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::Runtime)?;
    settings::ignored::warn(&settings);
    let told = Told {
        format: settings.log_format,
        database: settings.database_address().to_string(),
        store: settings.store.address.as_ref().map(ToString::to_string),
        rules: settings.rules.display().to_string(),
        tls: settings.tls.modes(),
        tokens: settings.tokens.clone(),
        is_admin_remote: matches!(settings.admin, Listen::At(at) if !at.ip().to_canonical().is_loopback()),
    };
    let running = Box::pin(tollgate_server::serve(settings)).await?;
    if tollgate_server::is_root() {
        tracing::warn!("running as root: a server needs no privilege for ports above 1023");
    }
    match told.format {
        LogFormat::Text => greet(&running, &told),
        LogFormat::Json => greet_in_json(&running, &told),
    }
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("stopping: finishing what is under way; once more to stop at once");
    let drained = tokio::select! {
        drained = running.stop() => drained,
        _ = terminate.recv() => false,
        _ = interrupt.recv() => false,
    };
    if drained {
        tracing::info!("stopped");
    } else {
        tracing::warn!("stopped with connections still open");
    }
    Ok(ExitCode::SUCCESS)
}

/// What was told of the listeners, of the store and of the rules.
struct Told {
    format: LogFormat,
    database: String,
    store: Option<String>,
    rules: String,
    tls: TlsModes,
    tokens: TokenSettings,
    is_admin_remote: bool,
}

/// Where it listens, and a line to try.
fn greet(running: &Running, Told { database, store, rules, tls, tokens, is_admin_remote, .. }: &Told) {
    let Addresses { http, grpc, resp, admin } = running.addresses();
    let places: usize = running.gate().snapshot().map_or(0, |snapshot| snapshot.places().count());
    println!(
        "Tollgate {}: {places} {} from {rules}",
        env!("CARGO_PKG_VERSION"),
        if places == 1 { "rule" } else { "rules" }
    );
    for (name, address, what, needs) in [
        ("http", http, "/v1/check, /v1/peek, /v1/auth, /json", needs(tls.http, tokens.http.is_some())),
        ("grpc", grpc, "Envoy's rate limit service", needs(tls.grpc, tokens.grpc.is_some())),
        ("resp", resp, "CL.THROTTLE, TG.CHECK", needs(tls.resp, tokens.resp.is_some())),
        ("admin", admin, "/metrics, /healthz, /admin/v1", needs(tls.admin, false)),
    ] {
        match address {
            Some(address) => println!("  {name:<6} {address:<22} {what}{needs}"),
            None => println!("  {name:<6} off"),
        }
    }
    println!("  database {database}");
    if let Some(store) = store {
        println!("  store  {store}");
    }
    if *is_admin_remote {
        println!("  admin's /metrics and health checks need no token: restrict who can reach that address");
    }
    if let Some(path) = running.admin_token_file() {
        println!("  admin token in {}", path.display());
    }
    let is_open = |mode, tokens: bool| mode != TlsMode::Mutual && !tokens;
    let open = Addresses {
        http: http.filter(|_| is_open(tls.http, tokens.http.is_some())),
        resp: resp.filter(|_| is_open(tls.resp, tokens.resp.is_some())),
        ..Addresses::default()
    };
    if let Some(line) = line_to_try(running, open, *tls) {
        println!("Try it:\n  {line}");
    }
}

/// The same as one object, for programs.
fn greet_in_json(running: &Running, told: &Told) {
    let Addresses { http, grpc, resp, admin } = running.addresses();
    let places: usize = running.gate().snapshot().map_or(0, |snapshot| snapshot.places().count());
    let greeting = json!({
        "message": "serving",
        "version": env!("CARGO_PKG_VERSION"),
        "rules": { "count": places, "path": told.rules },
        "http": http,
        "grpc": grpc,
        "resp": resp,
        "admin": admin,
        "database": told.database,
        "store": told.store,
        "admin_token_file": running.admin_token_file(),
    });
    println!("{greeting}");
}

/// What a client needs.
fn needs(mode: TlsMode, token: bool) -> &'static str {
    match (mode, token) {
        (TlsMode::Off, false) => "",
        (TlsMode::Off, true) => " (token)",
        (TlsMode::On, false) => " (TLS)",
        (TlsMode::On, true) => " (TLS, token)",
        (TlsMode::Mutual, false) => " (mutual TLS)",
        (TlsMode::Mutual, true) => " (mutual TLS, token)",
    }
}

/// A question that the rules in force answer: the simplest policy, else a Redis client's own numbers. It goes to a listener
/// that answers everybody, so that it works as it is printed.
fn line_to_try(running: &Running, open: Addresses, tls: TlsModes) -> Option<String> {
    let snapshot = running.gate().snapshot()?;
    let limits = |name: &str| snapshot.policy(name).map_or(0, |index| snapshot.place(index).limits().len());
    let names = snapshot.policy_names();
    let simplest = names.iter().rev().min_by_key(|name| limits(name));
    if let (Some(http), Some(policy)) = (open.http, simplest) {
        let question = format!(r#"{{"policy": "{policy}", "key": "user:4711"}}"#);
        // Only whoever made the certificate knows who vouches for it.
        let scheme = if tls.http == TlsMode::Off { "http" } else { "-k https" };
        return Some(format!("curl -i {scheme}://{http}/v1/check -d '{question}'"));
    }
    let port = open.resp?.port();
    let tls = if tls.resp == TlsMode::Off { "" } else { "--tls --insecure " };
    Some(format!("redis-cli {tls}-p {port} CL.THROTTLE user:4711 15 30 60"))
}
