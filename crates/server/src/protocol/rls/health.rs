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
        if !is_known(request.get_ref()) {
            // The name is not repeated: an answer's header has no room for whatever is sent.
            let hint = format!("unknown service; ask about \"{}\" or about \"\"", KNOWN[1]);
            return Err(Status::not_found(hint));
        }
        Ok(Response::new(told(status(&self.gate))))
    }

    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Watch>, Status> {
        let is_known = is_known(request.get_ref());
        let mut ticks = interval(WATCH_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Response::new(Watch { gate: Arc::clone(&self.gate), is_known, ticks, told: None, ended: false }))
    }
}

/// What somebody who watches is told: how it is now, and every change. Of a service that is not known, the protocol says so and
/// goes on, as there might be one later.
pub(super) struct Watch {
    gate: Arc<Gate>,
    is_known: bool,
    ticks: Interval,
    told: Option<ServingStatus>,
    ended: bool,
}

impl Stream for Watch {
    type Item = Result<HealthCheckResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        while !self.ended {
            ready!(self.ticks.poll_tick(context));
            // A gate that is about to stop must not wait for those who watch it. Asked before the status: that is the last one then.
            self.ended = self.gate.is_stopping();
            let status = if self.is_known { status(&self.gate) } else { ServingStatus::ServiceUnknown };
            if self.told.replace(status) != Some(status) {
                return Poll::Ready(Some(Ok(told(status))));
            }
        }
        Poll::Ready(None)
    }
}

fn status(gate: &Gate) -> ServingStatus {
    if gate.is_ready() { ServingStatus::Serving } else { ServingStatus::NotServing }
}

fn told(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

fn is_known(request: &HealthCheckRequest) -> bool {
    KNOWN.contains(&request.service.as_str())
}
