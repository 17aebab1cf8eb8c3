//! Connections and the memory that clients make the server hold, in metrics.

use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

use super::{counters, gauge, put};
use crate::memory::{Class, MemoryAccount};
use crate::room::{ConnectionLimit, Refusal};
use crate::serve::LISTENERS;

/// Numbers about connections and the memory account.
#[derive(Debug, Default)]
pub(crate) struct ConnectionStats {
    listeners: Vec<ListenerStats>,
    account: Option<AccountStats>,
}

#[derive(Debug)]
struct ListenerStats {
    name: &'static str,
    open: usize,
    max: usize,
    refused: [u64; Refusal::ALL.len()],
}

#[derive(Debug)]
struct AccountStats {
    max_bytes: usize,
    held_bytes: [usize; Class::ALL.len()],
    shed: [u64; Class::ALL.len()],
}

impl ConnectionStats {
    pub(crate) fn new(account: &MemoryAccount, limits: &[Arc<ConnectionLimit>]) -> ConnectionStats {
        let listener = |limit: &Arc<ConnectionLimit>| ListenerStats {
            name: LISTENERS[limit.listener()],
            open: limit.open_connections(),
            max: limit.connections_max(),
            refused: Refusal::ALL.map(|refusal| limit.refused_count(refusal)),
        };
        let account = AccountStats {
            max_bytes: account.max_bytes(),
            held_bytes: Class::ALL.map(|class| account.held_bytes(class)),
            shed: Class::ALL.map(|class| account.shed_count(class)),
        };
        ConnectionStats { listeners: limits.iter().map(listener).collect(), account: Some(account) }
    }

    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        type OfListener = fn(&ListenerStats) -> usize;
        let Some(account) = &self.account else { return Ok(()) };
        let gauges: [(&str, &str, OfListener); 2] = [
            ("ratelimit_connections_open", "Open connections, by listener.", |stats| stats.open),
            ("ratelimit_connections_max", "Connections that a listener may have.", |stats| stats.max),
        ];
        for (name, help, value) in gauges {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for stats in &self.listeners {
                family.encode_family(&[("listener", stats.name)])?.encode_gauge(&(value(stats) as u64))?;
            }
        }
        let help = "Connections that were closed before they were served, by listener and reason.";
        let mut family = counters(encoder, "ratelimit_connections_refused", help)?;
        for stats in &self.listeners {
            for (refusal, value) in Refusal::ALL.into_iter().zip(stats.refused) {
                put(&mut family, &[("listener", stats.name), ("reason", refusal.name())], value)?;
            }
        }
        account.encode(encoder)
    }
}

impl AccountStats {
    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Memory that connections and requests may take together.";
        gauge(encoder, "ratelimit_connections_memory_max_bytes", help, &(self.max_bytes as u64))?;
        let help = "Memory that clients make the server hold, by what it is used for.";
        let mut family =
            encoder.encode_descriptor("ratelimit_connections_memory_bytes", help, None, MetricType::Gauge)?;
        for (class, bytes) in Class::ALL.into_iter().zip(self.held_bytes) {
            family.encode_family(&[("class", class.name())])?.encode_gauge(&(bytes as u64))?;
        }
        let help = "Times that memory was refused to a client, by what it was wanted for.";
        let mut family = counters(encoder, "ratelimit_connections_memory_shed", help)?;
        for (class, value) in Class::ALL.into_iter().zip(self.shed) {
            put(&mut family, &[("class", class.name())], value)?;
        }
        Ok(())
    }
}
