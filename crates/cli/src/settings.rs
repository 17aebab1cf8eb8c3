//! Where settings come from: a file, then the variables of envoyproxy/ratelimit, then our own, then flags. Later ones win.

pub(crate) mod ignored;

use std::env;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches};
use tollgate::policy::{FlatEntry, Problems, Source, read_flat};
use tollgate_server::{SETTINGS, SettingError, Settings};

use crate::failure::Failure;

/// Read if it is there and no other is named.
const FILE: &str = "tollgate.yaml";
const CONFIG: &str = "config";

/// A flag for every setting, and one for the file of them.
pub(crate) fn args() -> impl Iterator<Item = Arg> {
    let config = Arg::new(CONFIG)
        .long("config")
        .short('c')
        .env("TOLLGATE_CONFIG")
        .value_name("PATH")
        .help("The settings file [default: tollgate.yaml, if it exists]");
    let settings = SETTINGS.iter().map(|setting| {
        let arg = Arg::new(setting.name)
            .long(setting.name.replace('_', "-"))
            .env(setting.variable)
            .hide_env_values(true)
            .value_name(setting.value_name)
            .help(setting.help);
        // A flag alone means yes.
        if setting.value_name == "BOOL" { arg.num_args(0..=1).default_missing_value("true") } else { arg }
    });
    std::iter::once(config).chain(settings)
}

/// All settings, from everywhere.
pub(crate) fn gather(matches: &ArgMatches) -> Result<Settings, Failure> {
    let mut settings = Settings::default();
    from_file(&mut settings, matches.get_one::<String>(CONFIG))?;
    from_aliases(&mut settings)?;
    for source in [ValueSource::EnvVariable, ValueSource::CommandLine] {
        for setting in SETTINGS.iter().filter(|setting| matches.value_source(setting.name) == Some(source)) {
            let Some(text) = matches.get_one::<String>(setting.name) else { continue };
            let name = match source {
                ValueSource::EnvVariable => setting.variable.to_owned(),
                _ => format!("--{}", setting.name.replace('_', "-")),
            };
            settings.set(setting.name, text).map_err(|error| Failure::Setting { given_by: name, error })?;
        }
    }
    settings.memory.get_or_insert_with(tollgate_server::default_memory_bytes);
    Ok(settings)
}

fn from_file(settings: &mut Settings, named: Option<&String>) -> Result<(), Failure> {
    let path = match named {
        Some(named) => PathBuf::from(named),
        None if Path::new(FILE).exists() => PathBuf::from(FILE),
        None => return Ok(()),
    };
    let text = std::fs::read_to_string(&path).map_err(|error| Failure::Read { path: path.clone(), error })?;
    let known: Vec<&str> = SETTINGS.iter().map(|setting| setting.name).collect();
    let entries =
        read_flat(&Source::new(path.display().to_string(), text), &known).map_err(Failure::Problems)?;
    let mut problems = Problems::new();
    for entry in entries {
        if let Err(error) = settings.set(&entry.key, &entry.text) {
            let help =
                SETTINGS.iter().find(|setting| setting.name == entry.key).map_or("", |setting| setting.help);
            let problem = match error {
                // An address may have a password in it.
                SettingError::Token(_)
                | SettingError::AdminToken(_)
                | SettingError::Database(_)
                | SettingError::Store(_)
                | SettingError::Pin(_) => FlatEntry::secret_problem,
                _ => FlatEntry::problem,
            };
            problems.push(problem(&entry, format!("`{}`: {error}", entry.key), help.to_owned()));
        }
    }
    problems.or(()).map_err(Failure::Problems)?;
    // Paths in a file are meant from where the file stands.
    if let Some(folder) = path.parent() {
        settings.paths_from(folder);
    }
    Ok(())
}

/// The variables of envoyproxy/ratelimit, for those who move from it. There, a port is open to everybody unless a host is named.
fn from_aliases(settings: &mut Settings) -> Result<(), Failure> {
    let address = |host: &str, port: &str| {
        let host =
            env::var(host).ok().filter(|host| !host.is_empty()).unwrap_or_else(|| "0.0.0.0".to_owned());
        env::var(port).ok().map(|port| format!("{host}:{port}"))
    };
    let rules = env::var("RUNTIME_ROOT").ok().map(|root| {
        let below = env::var("RUNTIME_SUBDIRECTORY").unwrap_or_default();
        let app = env::var("RUNTIME_APPDIRECTORY").unwrap_or_else(|_| "config".to_owned());
        Path::new(&root).join(below).join(app).display().to_string()
    });
    let given = [
        ("RUNTIME_ROOT", "rules", rules),
        ("PORT", "http", address("HOST", "PORT")),
        ("GRPC_PORT", "grpc", address("GRPC_HOST", "GRPC_PORT")),
    ];
    let same = SETTINGS.iter().filter_map(|setting| {
        let alias = setting.alias?;
        Some((alias, setting.name, env::var(alias).ok()))
    });
    for (variable, name, text) in given.into_iter().chain(same) {
        let Some(text) = text else { continue };
        let refused = |error| Failure::Setting { given_by: variable.to_owned(), error };
        settings.set(name, &text).map_err(refused)?;
    }
    Ok(())
}
