//! The child's side: one server in a process of its own, until nobody holds the other end of its standard input.

use std::error::Error;
use std::fs;
use std::io::{self, Read};

use tollgate_server::{Listen, Settings};

use super::bare;

/// Limits so large that nobody is denied.
const RULES: &str = "
domain: bench
descriptors:
- key: path
  value: /search
  descriptors:
  - {key: user, rate_limit: {requests: 10000000, period: 3650d, burst: 10000000}}
- {key: user, rate_limit: {requests: 10000000, period: 3650d, burst: 10000000}}
policies:
  search: {requests: 10000000, period: 3650d, burst: 10000000}
";

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    Tollgate,
    Tonic,
    Hyper,
}

/// The work of the child process.
#[derive(clap::Args)]
pub(crate) struct ServerArgs {
    /// Which server to run
    kind: Kind,
}

/// Serves until standard input ends. Threads as `tollgate serve` has them: a runtime that accepts, and one thread that serves.
pub(crate) fn run(args: &ServerArgs) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    match args.kind {
        Kind::Tollgate => {
            let folder = tempfile::tempdir()?;
            fs::write(folder.path().join("bench.yaml"), RULES)?;
            let anywhere = Listen::At(([127, 0, 0, 1], 0).into());
            let settings = Settings {
                rules: folder.path().to_owned(),
                http: anywhere,
                grpc: anywhere,
                resp: anywhere,
                admin: Listen::Off,
                workers: 1,
                ..Settings::default()
            };
            let running = runtime.block_on(Box::pin(tollgate_server::serve(settings)))?;
            let at = running.addresses();
            for (name, address) in [("http", at.http), ("grpc", at.grpc), ("resp", at.resp)] {
                if let Some(address) = address {
                    print!("{name}={address} ");
                }
            }
            println!();
            wait_for_the_end()
        }
        Kind::Tonic => {
            println!("grpc={}", runtime.block_on(bare::serve_tonic())?);
            wait_for_the_end()
        }
        Kind::Hyper => {
            println!("http={}", runtime.block_on(bare::serve_hyper())?);
            wait_for_the_end()
        }
    }
}

fn wait_for_the_end() -> Result<(), Box<dyn Error>> {
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
