//! The server under attack, as a child process of the benchmark: it takes the flags of `tollgate serve` and greets as that does.

use std::env;
use std::error::Error;
use std::future::pending;

use tollgate_server::{Addresses, Settings};

/// Under this name a launch of the testkit says which names its clients send as `Host`.
const HOSTS: &str = "TOLLGATE_HTTP_HOSTS";

/// The settings of the server.
#[derive(clap::Args)]
pub(crate) struct ServeArgs {
    /// Each as `--name=value`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    flags: Vec<String>,
}

/// Serves until it is killed.
pub(crate) fn run_server(args: &ServeArgs) -> Result<(), Box<dyn Error>> {
    let mut settings = Settings::default();
    if let Ok(hosts) = env::var(HOSTS) {
        settings.set("http_hosts", &hosts)?;
    }
    for flag in &args.flags {
        let (name, value) = flag.trim_start_matches('-').split_once('=').ok_or("a flag without a value")?;
        settings.set(&name.replace('-', "_"), value)?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        let running = Box::pin(tollgate_server::serve(settings)).await?;
        let Addresses { http, grpc, resp, admin } = running.addresses();
        for (name, address) in [("http", http), ("grpc", grpc), ("resp", resp), ("admin", admin)] {
            println!("{name} {}", address.map_or_else(|| "off".to_owned(), |address| address.to_string()));
        }
        pending::<Result<(), Box<dyn Error>>>().await
    })
}
