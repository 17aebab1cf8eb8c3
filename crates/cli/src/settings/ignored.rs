//! Variables of envoyproxy/ratelimit that Tollgate does not read. A server that is moved from there says
//! which of them are set, and does not start where ignoring one would let clients in.

use std::env;

use tollgate_server::{Listen, Settings, TlsMode};

use crate::failure::Failure;

const STORE: &str = "set `store` (TOLLGATE_STORE) to share counters";
const STATS: &str = "metrics are for Prometheus, at `admin` (TOLLGATE_ADMIN)";
const TLS: &str = "set `tls_certificate`, `tls_key` and `tls_client_ca` (TOLLGATE_TLS_...)";
const RULES: &str = "rules are files below `rules` (TOLLGATE_RULES)";
const NOTHING: &str = "there is nothing like it here";

/// What takes their place, and their names.
const IGNORED: [(&str, &[&str]); 9] = [
    (
        TLS,
        &[
            "GRPC_SERVER_USE_TLS",
            "GRPC_SERVER_TLS_CERT",
            "GRPC_SERVER_TLS_KEY",
            "GRPC_CLIENT_TLS_CACERT",
            "GRPC_CLIENT_TLS_SAN",
        ],
    ),
    (
        STORE,
        &[
            "BACKEND_TYPE",
            "CACHE_KEY_PREFIX",
            "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT",
            "EXPIRATION_JITTER_MAX_SECONDS",
            "LOCAL_CACHE_SIZE_IN_BYTES",
        ],
    ),
    (
        RULES,
        &[
            "CONFIG_TYPE",
            "FORCE_START_WITHOUT_INITIAL_CONFIG",
            "RUNTIME_IGNOREDOTFILES",
            "RUNTIME_WATCH_ROOT",
            "MERGE_DOMAIN_CONFIG",
        ],
    ),
    (
        STATS,
        &[
            "USE_STATSD",
            "USE_DOG_STATSD",
            "USE_DOG_STATSD_MOGRIFIERS",
            "USE_PROMETHEUS",
            "STATSD_HOST",
            "STATSD_PORT",
            "STATS_FLUSH_INTERVAL",
            "DISABLE_STATS",
            "EXTRA_TAGS",
            "PROMETHEUS_ADDR",
            "PROMETHEUS_PATH",
            "PROMETHEUS_MAPPER_YAML",
        ],
    ),
    ("`admin` (TOLLGATE_ADMIN) has /config", &["DEBUG_HOST", "DEBUG_PORT"]),
    ("set `log_format` (TOLLGATE_LOG_FORMAT)", &["LOG_FORMAT"]),
    (
        "header fields have their standard names",
        &["LIMIT_LIMIT_HEADER", "LIMIT_REMAINING_HEADER", "LIMIT_RESET_HEADER"],
    ),
    ("rules say `quota_mode` themselves", &["QUOTA_MODE"]),
    (
        NOTHING,
        &[
            "PROTO",
            "GRPC_UDS",
            "GRPC_MAX_CONNECTION_AGE",
            "GRPC_MAX_CONNECTION_AGE_GRACE",
            "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED",
        ],
    ),
];

/// The same of names that begin so.
const BEGINNINGS: [(&str, &str); 5] = [
    ("REDIS_", STORE),
    ("MEMCACHE_", STORE),
    ("CONFIG_GRPC_XDS_", RULES),
    ("XDS_CLIENT_BACKOFF_", RULES),
    ("TRACING_", NOTHING),
];

/// Refuses to start where a variable asks for protection that it does not get.
pub(crate) fn check(settings: &Settings) -> Result<(), Failure> {
    check_with(settings, value_of)
}

/// Logs a warning for each variable that is set and ignored.
pub(crate) fn warn(settings: &Settings) {
    // Names that are not text are none of these.
    let names = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut set: Vec<_> = names.filter(|name| value_of(name).is_some()).collect();
    set.sort_unstable();
    for (variable, instead) in ignored(settings, set.iter().map(String::as_str)) {
        tracing::warn!(variable, instead, "ignoring a variable of envoyproxy/ratelimit");
    }
}

fn value_of(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

fn check_with(settings: &Settings, value: impl Fn(&str) -> Option<String>) -> Result<(), Failure> {
    let refuse = |variable: &str, consequence: &str, advice: &str| {
        Err(Failure::Usage(format!(
            "refusing to start: {variable} of envoyproxy/ratelimit is set and has no effect here, so {consequence}. {advice}"
        )))
    };
    if value("CONFIG_TYPE").is_some_and(|kind| kind != "FILE") {
        let consequence = "no rule of the xDS server would be in force";
        return refuse(
            "CONFIG_TYPE",
            consequence,
            "Put the rules into files, name them with `rules`, and unset it.",
        );
    }
    let wants_tls = value("GRPC_SERVER_USE_TLS")
        .is_some_and(|text| matches!(text.as_str(), "true" | "TRUE" | "True" | "t" | "T" | "1"));
    if !wants_tls || settings.grpc == Listen::Off {
        return Ok(());
    }
    let mode = settings.tls.modes().grpc;
    if mode == TlsMode::Off {
        let advice =
            "Set `tls_certificate` and `tls_key` (TOLLGATE_TLS_CERTIFICATE, TOLLGATE_TLS_KEY), or unset it.";
        return refuse("GRPC_SERVER_USE_TLS", "gRPC would be served in the clear", advice);
    }
    if value("GRPC_CLIENT_TLS_CACERT").is_some() && mode != TlsMode::Mutual {
        let advice = "Set `tls_client_ca` (TOLLGATE_TLS_CLIENT_CA), or unset it.";
        return refuse("GRPC_CLIENT_TLS_CACERT", "clients without a certificate would be let in", advice);
    }
    if value("GRPC_CLIENT_TLS_SAN").is_some() {
        let advice = "Have the clients' certificates signed by an authority of their own, and unset it.";
        return refuse("GRPC_CLIENT_TLS_SAN", "every client of the authority would be let in", advice);
    }
    Ok(())
}

/// Those of the names that mean something to envoyproxy/ratelimit and nothing here, and what takes their place.
fn ignored<'n>(
    settings: &Settings,
    names: impl Iterator<Item = &'n str>,
) -> impl Iterator<Item = (&'n str, &'static str)> {
    let (has_store, has_tls) = (settings.store.address.is_some(), settings.tls.modes().grpc != TlsMode::Off);
    names.filter_map(move |name| {
        let instead = instead_of(name)?;
        // Our own settings say the same already.
        let is_covered = instead == STORE && has_store || instead == TLS && has_tls;
        (!is_covered).then_some((name, instead))
    })
}

/// What takes the place of a variable that means something to envoyproxy/ratelimit and nothing here.
fn instead_of(variable: &str) -> Option<&'static str> {
    let listed = IGNORED.into_iter().find(|(_, variables)| variables.contains(&variable));
    let begun = || BEGINNINGS.into_iter().find(|(beginning, _)| variable.starts_with(beginning));
    listed.map(|(instead, _)| instead).or_else(|| begun().map(|(_, instead)| instead))
}

#[cfg(test)]
mod tests {
    //! Which variables are ignored, and which must not be.
    use super::*;

    fn settings(set: &[(&str, &str)]) -> Settings {
        let mut settings = Settings::default();
        for (name, text) in set {
            settings.set(name, text).unwrap();
        }
        settings
    }

    fn refused(set: &[(&str, &str)], variables: &[(&str, &str)]) -> Option<String> {
        let value = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned())
        };
        check_with(&settings(set), value).err().map(|failure| failure.to_string())
    }

    #[test]
    fn a_variable_that_asks_for_protection_is_not_ignored() {
        let certificate = [("tls_certificate", "c.pem"), ("tls_key", "k.pem")];
        let mutual = [certificate[0], certificate[1], ("tls_client_ca", "ca.pem")];
        let tls = ("GRPC_SERVER_USE_TLS", "true");
        let (ca, san) = (("GRPC_CLIENT_TLS_CACERT", "ca.pem"), ("GRPC_CLIENT_TLS_SAN", "envoy"));
        for (set, variables, said) in [
            (&[][..], &[tls][..], Some("served in the clear")),
            (&[("grpc", "off")], &[tls], None),
            (&[], &[("GRPC_SERVER_USE_TLS", "false")], None),
            (&certificate, &[tls], None),
            (&certificate, &[tls, ca], Some("without a certificate would be let in")),
            (&mutual, &[tls, ca], None),
            (&mutual, &[tls, ca, san], Some("every client of the authority")),
            (&[], &[("CONFIG_TYPE", "GRPC_XDS_SOTW")], Some("no rule of the xDS server")),
            (&[], &[("CONFIG_TYPE", "FILE")], None),
        ] {
            let told = refused(set, variables);
            assert_eq!(told.is_some(), said.is_some(), "{set:?} {variables:?}: {told:?}");
            let told = told.unwrap_or_default();
            assert!(told.contains(said.unwrap_or_default()), "{told}");
        }
    }

    #[test]
    fn what_is_ignored_is_said_and_nothing_else() {
        let names = [
            "REDIS_URL",
            "REDIS_PERSECOND_URL",
            "BACKEND_TYPE",
            "USE_STATSD",
            "USE_POLLING",
            "LIMIT_LIMIT_HEADER",
            "LIMIT_RESPONSE_HEADERS_ENABLED",
            "GRPC_SERVER_TLS_CERT",
            "GRPC_PORT",
            "PORT",
            "LOG_FORMAT",
            "LOG_LEVEL",
            "RUNTIME_ROOT",
            "RUNTIME_WATCH_ROOT",
            "SHADOW_MODE",
            "TRACING_ENABLED",
            "PATH",
            "HOME",
            "CONFIG_TYPE",
        ];
        let told = |settings: &Settings| {
            ignored(settings, names.into_iter()).map(|(name, _)| name).collect::<Vec<_>>()
        };
        let always =
            ["LIMIT_LIMIT_HEADER", "LOG_FORMAT", "RUNTIME_WATCH_ROOT", "TRACING_ENABLED", "CONFIG_TYPE"];
        let mut without = told(&settings(&[]));
        for name in ["REDIS_URL", "REDIS_PERSECOND_URL", "BACKEND_TYPE", "USE_STATSD", "GRPC_SERVER_TLS_CERT"]
        {
            assert!(without.contains(&name), "{name}");
            without.retain(|other| *other != name);
        }
        assert_eq!(without, always);
        let covered = [("store", "redis://127.0.0.1"), ("tls_certificate", "c.pem"), ("tls_key", "k.pem")];
        let covered = told(&settings(&covered));
        assert!(!covered.contains(&"REDIS_URL") && !covered.contains(&"GRPC_SERVER_TLS_CERT"), "{covered:?}");
    }
}
