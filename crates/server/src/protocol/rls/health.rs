//! gRPC's health protocol: load balancers and orchestrators ask here whether the gate wants requests.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval};
use tonic::codegen::tokio_stream::Stream;
use tonic::server::NamedService;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::Health;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use super::RateLimits;
use super::wire::RateLimitServiceServer;
use crate::gate::Gate;

/// How long a change may go unnoticed by whoever watches.
const WATCH_INTERVAL: Duration = Duration::from_millis(500);

/// Who may be asked about: the whole, the service by its name, and that by the name it has in envoyproxy/ratelimit.
const KNOWN: [&str; 3] = ["", <RateLimitServiceServer<RateLimits> as NamedService>::NAME, "ratelimit"];

/// Says whether the gate is ready.
pub(super) struct GateHealth {
    gate: Arc<Gate>,
}

impl GateHealth {
    pub(super) fn new(gate: Arc<Gate>) -> GateHealth {
        GateHealth { gate }
    }
}

#[tonic::async_trait]
impl Health for GateHealth {
    type WatchStream = Watch;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        check_known(request.get_ref())?;
        Ok(Response::new(health(self.gate.is_ready())))
    }

    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Watch>, Status> {
        check_known(request.get_ref())?;
        let mut ticks = interval(WATCH_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Response::new(Watch { gate: Arc::clone(&self.gate), ticks, told: None, ended: false }))
    }
}

/// What somebody who watches is told: how it is now, and every change.
pub(super) struct Watch {
    gate: Arc<Gate>,
    ticks: Interval,
    told: Option<bool>,
    ended: bool,
}

impl Stream for Watch {
    type Item = Result<HealthCheckResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        while !self.ended {
            ready!(self.ticks.poll_tick(context));
            let is_ready = self.gate.is_ready();
            if self.told == Some(is_ready) {
                continue;
            }
            // A gate that was ready and is not is about to stop, and must not wait for those who watch it.
            self.ended = self.told == Some(true);
            self.told = Some(is_ready);
            return Poll::Ready(Some(Ok(health(is_ready))));
        }
        Poll::Ready(None)
    }
}

fn health(is_ready: bool) -> HealthCheckResponse {
    let status = if is_ready { ServingStatus::Serving } else { ServingStatus::NotServing };
    HealthCheckResponse { status: status.into() }
}

fn check_known(request: &HealthCheckRequest) -> Result<(), Status> {
    // The name is not repeated: an answer's header has no room for whatever is sent.
    let unknown = || Status::not_found(format!("unknown service; ask about \"{}\" or about \"\"", KNOWN[1]));
    KNOWN.contains(&request.service.as_str()).then_some(()).ok_or_else(unknown)
}
