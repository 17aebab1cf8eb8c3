//! What there is to ask, one [`Operation`] each: they make the routes and the OpenAPI document, so that neither has what the other has not.

use std::pin::Pin;

use axum::response::Response;
use axum::routing::MethodFilter;

use super::ask::Ask;
use super::problem::Problem;
use crate::admin::role::Role;

/// One method of one path.
pub(super) struct Operation {
    pub(super) method: Verb,
    /// Below `/admin/v1`, with `{names}` of parameters in it.
    pub(super) path: &'static str,
    /// Who may ask; nobody in particular, if everybody may.
    pub(super) role: Option<Role>,
    /// Its name in clients that are made from the description.
    pub(super) name: &'static str,
    pub(super) summary: &'static str,
    pub(super) query: &'static [Parameter],
    pub(super) fields: Fields,
    /// What it takes, by the name of a schema.
    pub(super) body: Option<&'static str>,
    /// What it answers, if all is well.
    pub(super) answers: &'static [Told],
    /// What it answers if not, besides what all do.
    pub(super) problems: &'static [u16],
    pub(super) handler: Handler,
}

pub(super) type Handler = fn(Ask) -> Answering;
pub(super) type Answering = Pin<Box<dyn Future<Output = Result<Response, Problem>> + Send>>;

/// An operation that does nothing yet: others say what differs.
pub(super) const PLAIN: Operation = Operation {
    method: Verb::Get,
    path: "",
    role: Some(Role::Reader),
    name: "",
    summary: "",
    query: &[],
    fields: Fields::None,
    body: None,
    answers: &[],
    problems: &[503],
    handler: |_| Box::pin(async { Err(Problem::Internal) }),
};

/// The methods that there are. HEAD goes with GET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    Put,
    Post,
    Delete,
}

/// A parameter of the query.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) form: Form,
}

/// What a parameter looks like.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    /// A number in these bounds.
    Count { min: u64, max: u64, default: Option<u64> },
    /// Any text.
    Text,
    /// RFC 3339.
    Moment,
    /// A date, such as `2026-11-17`.
    Day,
    /// One of these.
    Word(&'static [&'static str]),
}

/// Which header fields matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fields {
    None,
    /// If-None-Match: nothing is sent that whoever asks has already.
    Looks,
    /// If-Match, If-None-Match and Idempotency-Key.
    Changes,
    /// Idempotency-Key.
    Acts,
}

/// An answer: its status, and the name of its schema and its form.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    pub(super) status: u16,
    pub(super) schema: Option<&'static str>,
    pub(super) media_type: &'static str,
    /// Whether it says its version as an ETag.
    pub(super) has_tag: bool,
}

impl Told {
    /// JSON of a schema.
    pub(super) const fn json(status: u16, schema: &'static str) -> Told {
        Told { status, schema: Some(schema), media_type: "application/json", has_tag: false }
    }

    /// The same, with an ETag.
    pub(super) const fn tagged(status: u16, schema: &'static str) -> Told {
        Told { has_tag: true, ..Told::json(status, schema) }
    }
}

impl Verb {
    pub(super) fn filter(self) -> MethodFilter {
        match self {
            Verb::Get => MethodFilter::GET,
            Verb::Put => MethodFilter::PUT,
            Verb::Post => MethodFilter::POST,
            Verb::Delete => MethodFilter::DELETE,
        }
    }

    /// As OpenAPI writes it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::Put => "put",
            Verb::Post => "post",
            Verb::Delete => "delete",
        }
    }
}

impl Operation {
    /// The statuses of all its problems, in order.
    pub(super) fn problem_statuses(&self) -> Vec<u16> {
        let mut statuses = vec![400, 403];
        if self.role.is_some() {
            statuses.extend([401, 429]);
        }
        if self.body.is_some() {
            statuses.extend([408, 413, 415, 422]);
        }
        match self.fields {
            Fields::None | Fields::Looks => {}
            Fields::Changes => statuses.extend([412, 422]),
            Fields::Acts => statuses.push(422),
        }
        statuses.extend(self.problems);
        statuses.sort_unstable();
        statuses.dedup();
        statuses
    }

    /// The names of the parameters in its path.
    pub(super) fn path_parameters(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }
}
