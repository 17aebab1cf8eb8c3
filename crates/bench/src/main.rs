//! Tollgate side by side with its peers, and against its own promises.
//!
//! Every figure that the documents state is printed by one of these subcommands.

mod accuracy;
mod authority;
mod contender;
mod durable;
mod durable_faults;
mod engine;
mod faults;
mod fleet;
mod flood;
mod hostile;
mod keys;
mod leased_fleet;
mod ledger;
mod llm_trace;
mod pauses;
mod propagation;
mod resident;
mod settlements;
mod table;
mod tenants;
mod timer;
mod upkeep;
mod wire;

use std::error::Error;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// What `tollgate` has, so that servers measured here have it too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures Tollgate, side by side with its peers where there are any.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Time per decision and memory per key, beside governor, throttlecrab and pingora-limits
    Ledger(ledger::LedgerArgs),
    /// Time per decision through rules and descriptors, beside the bare ledger and governor
    Engine(engine::EngineArgs),
    /// A million tenants with numbers of their own: time to load, memory, time of one more, and what decisions pay
    Tenants(tenants::TenantsArgs),
    /// The longest that single decisions take while the table grows, reclaims or evicts
    Pauses(pauses::PausesArgs),
    /// Memory and exactness under a flood of new keys; fails if either suffers
    Flood(flood::FloodArgs),
    /// How often each algorithm is wrong, judged against an exact log
    Accuracy(accuracy::AccuracyArgs),
    /// The server's CPU per decision and how long callers wait, beside Redis, tonic, hyper and throttlecrab-server
    Wire(wire::WireArgs),
    /// Decisions that a fleet shares through Redis, beside one EVALSHA for each; what calls and keys cost Redis
    Redis(authority::RedisArgs),
    /// The same where most decisions are made of leases, beside exact ones and beside one EVALSHA for each
    Leases(authority::leases::LeasesArgs),
    /// Four servers on one Redis: whether the fleet ever admits more than its limits; fails if it does
    Fleet(fleet::FleetArgs),
    /// The same with leases: admitted beside the limit, the bound and one exact limiter; fails beyond the bound
    LeasedFleet(leased_fleet::LeasedFleetArgs),
    /// Decisions on durable quotas, beside the same rule in memory and beside one UPDATE for each
    Durable(durable::DurableArgs),
    /// Durable quotas while servers are killed, shared, and without their database; fails if one is not kept
    DurableFaults(durable_faults::DurableFaultsArgs),
    /// How long a change takes from one server to another, over one PostgreSQL; fails if they do not agree in the end
    Propagation(propagation::PropagationArgs),
    /// What callers see while Redis is killed, frozen, slow, moved or full: latencies, and when exact decisions are back
    Faults(faults::FaultsArgs),
    /// Requests to a language model: estimates reserved, tokens settled; fails unless exactly those are charged
    LlmTrace(llm_trace::LlmTraceArgs),
    /// Reservations settled while Redis and PostgreSQL fail; fails if units differ without a cause
    Settlements(settlements::SettlementsArgs),
    /// Every attack on a server of its own: outcome, memory, and how others were served; fails if one did harm
    Hostile(hostile::HostileArgs),
    /// The child process of `hostile`: a server
    #[command(hide = true)]
    Serve(hostile::ServeArgs),
    /// The child process of `ledger` that fills one table and prints by how much it grew
    #[command(hide = true)]
    Memory(ledger::MemoryArgs),
    /// The child process of `tenants` that loads them and prints by how much it grew
    #[command(hide = true)]
    TenantsMemory(tenants::TenantsMemoryArgs),
    /// The child process of `wire` that is one of the servers
    #[command(hide = true)]
    WireServer(wire::ServerArgs),
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tollgate-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<(), Box<dyn Error>> {
    match command {
        Command::Ledger(args) => ledger::run(&args),
        Command::Engine(args) => engine::run(&args),
        Command::Tenants(args) => tenants::run(&args),
        Command::Pauses(args) => pauses::run(&args),
        Command::Flood(args) => flood::run(&args),
        Command::Accuracy(args) => accuracy::run(&args),
        Command::Wire(args) => wire::run(&args),
        Command::Redis(args) => authority::run(&args),
        Command::Leases(args) => authority::leases::run(&args),
        Command::Fleet(args) => fleet::run(&args),
        Command::LeasedFleet(args) => leased_fleet::run(&args),
        Command::Durable(args) => durable::run(&args),
        Command::DurableFaults(args) => durable_faults::run(&args),
        Command::Propagation(args) => propagation::run(&args),
        Command::Faults(args) => faults::run(&args),
        Command::LlmTrace(args) => llm_trace::run(&args),
        Command::Settlements(args) => settlements::run(&args),
        Command::Hostile(args) => hostile::run(&args),
        Command::Serve(args) => hostile::run_server(&args),
        Command::Memory(args) => ledger::run_memory(&args),
        Command::TenantsMemory(args) => tenants::run_memory(&args),
        Command::WireServer(args) => wire::run_server(&args),
    }
}
