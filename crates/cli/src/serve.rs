//! `tollgate serve`: the server, from its first line to its last.

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use tokio::signal::unix::{SignalKind, signal};
use tollgate_server::{Addresses, Running, Settings};

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
    if !settings.rules.exists() {
        let hint = match matches.value_source("rules") {
            Some(_) => "",
            None => {
                ": name them with --rules PATH, or start where a `tollgate.yaml` or a directory `rules` is"
            }
        };
        return Err(Failure::NoRules { path: settings.rules, hint });
    }
    logs::start(&settings)?;
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
    warn_of_redis();
    let rules = settings.rules.display().to_string();
    let running = tollgate_server::serve(settings).await?;
    greet(&running, &rules);
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

/// Those who move from envoyproxy/ratelimit may expect that its store is used.
fn warn_of_redis() {
    let set: Vec<_> = ["REDIS_URL", "REDIS_TYPE", "REDIS_AUTH"]
        .into_iter()
        .filter(|name| std::env::var_os(name).is_some())
        .collect();
    if !set.is_empty() {
        tracing::warn!("{} set, but not used: this version keeps counters in its own memory", set.join(", "));
    }
}

/// Where it listens, and a line to try.
fn greet(running: &Running, rules: &str) {
    let Addresses { http, grpc, resp, admin } = running.addresses();
    let places: usize = running.gate().snapshot().map_or(0, |snapshot| snapshot.places().count());
    println!(
        "Tollgate {}: {places} {} from {rules}",
        env!("CARGO_PKG_VERSION"),
        if places == 1 { "rule" } else { "rules" }
    );
    for (name, address, what) in [
        ("http", http, "/v1/check, /v1/peek, /json"),
        ("grpc", grpc, "Envoy's rate limit service"),
        ("resp", resp, "CL.THROTTLE, TG.CHECK"),
        ("admin", admin, "/metrics, /healthz"),
    ] {
        match address {
            Some(address) => println!("  {name:<6} {address:<22} {what}"),
            None => println!("  {name:<6} off"),
        }
    }
    if let Some(line) = line_to_try(running) {
        println!("Try it:\n  {line}");
    }
}

/// A question that the rules in force answer: the simplest policy, else a Redis client's own numbers.
fn line_to_try(running: &Running) -> Option<String> {
    let snapshot = running.gate().snapshot()?;
    let addresses = running.addresses();
    let limits = |name: &str| snapshot.policy(name).map_or(0, |index| snapshot.place(index).limits().len());
    let names = snapshot.policy_names();
    let simplest = names.iter().rev().min_by_key(|name| limits(name));
    if let (Some(http), Some(policy)) = (addresses.http, simplest) {
        let question = format!(r#"{{"policy": "{policy}", "key": "user:4711"}}"#);
        return Some(format!("curl -i http://{http}/v1/check -d '{question}'"));
    }
    let port = addresses.resp?.port();
    Some(format!("redis-cli -p {port} CL.THROTTLE user:4711 15 30 60"))
}
