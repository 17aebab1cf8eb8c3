//! `tollgate usage`: what a tenant has used of each of its limits.

use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};
use serde_json::{Value, json};

use crate::admin::{self, Admin, encoded};
use crate::failure::Failure;
use crate::moment;
use crate::quota::{tenant, tenant_arg};
use crate::table::{Column, Table, shown};

pub(crate) fn command() -> Command {
    Command::new("usage")
        .about("Show what a tenant has used of each of its limits, now or day by day, or have it begin anew")
        .after_help(
            "Examples:\n  tollgate usage acme\n  tollgate usage days acme --from 2026-11-01\n  tollgate usage reset acme",
        )
        .args(admin::args())
        .args_conflicts_with_subcommands(true)
        .subcommand_negates_reqs(true)
        .arg_required_else_help(true)
        .arg(tenant_arg())
        .subcommand(
            Command::new("days")
                .about("Show what a tenant has used of its durable limits on each day")
                .after_help("Example: tollgate usage days acme --from 2026-11-01 --to 2026-11-30")
                .arg(tenant_arg())
                .args([
                    day_arg("from", "The first day, such as 2026-11-01 [default: 31 days before the last]"),
                    day_arg("to", "The last day [default: tomorrow, for zones where that is today]"),
                    Arg::new("rule").long("rule").value_name("RULE").help("Only under this rule"),
                ]),
        )
        .subcommand(
            Command::new("reset")
                .about("Forget what a tenant has used")
                .after_help("Example: tollgate usage reset acme")
                .arg(tenant_arg()),
        )
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    match matches.subcommand() {
        Some(("reset", matches)) => return reset(matches),
        Some(("days", matches)) => return days(matches),
        _ => {}
    }
    let mut admin = Admin::new(matches)?;
    let reply = admin.get(&path(tenant(matches)))?;
    admin.print(&reply.body, || tell(&reply.body))
}

fn day_arg(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name("DAY").help(help)
}

/// Day by day: all pages, since a month of a tenant with many rules is more than one.
fn days(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let mut admin = Admin::new(matches)?;
    let given = ["from", "to", "rule"].into_iter().filter_map(|name| {
        let value = matches.get_one::<String>(name)?;
        Some(format!("&{name}={}", encoded(value)))
    });
    let given: String = given.collect();
    let (mut items, mut after) = (Vec::new(), String::new());
    loop {
        let reply = admin.get(&format!("{}/days?limit=1000{given}{after}", path(tenant(matches))))?;
        items.extend(reply.body["items"].as_array().cloned().unwrap_or_default());
        match reply.body["next"].as_str() {
            Some(next) => after = format!("&after={}", encoded(next)),
            None => break,
        }
    }
    let all = json!({ "items": items });
    admin.print(&all, || tell_days(tenant(matches), &items))
}

fn tell_days(tenant: &str, items: &[Value]) -> String {
    if items.is_empty() {
        let tenant = shown(tenant);
        return format!("{tenant} has used nothing of a durable limit in that time.\n");
    }
    let mut table = Table::new(&[Column::Left("DAY"), Column::Left("RULE"), Column::Right("USED")]);
    for item in items {
        let text = |field: &str| item[field].as_str().unwrap_or("?").to_owned();
        table.row([&*text("day"), &*text("rule"), &*number(&item["units"])]);
    }
    table.text()
}

fn path(tenant: &str) -> String {
    format!("/admin/v1/usage/{}", encoded(tenant))
}

fn reset(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let mut admin = Admin::new(matches)?;
    let tenant = tenant(matches);
    let reply = admin.post(&format!("{}/reset", path(tenant)), &json!({}))?;
    admin.print(&reply.body, || {
        format!("{}: begins anew with every limit that counts it alone\n", shown(tenant))
    })
}

fn tell(usage: &Value) -> String {
    let limits = usage["limits"].as_array().map_or(&[][..], Vec::as_slice);
    if limits.is_empty() {
        let tenant = shown(usage["api_key"].as_str().unwrap_or(""));
        return format!("No limit counts {tenant} alone.\n");
    }
    let columns = [
        Column::Left("COUNTED"),
        Column::Left("LIMIT"),
        Column::Right("USED"),
        Column::Right("OF"),
        Column::Right("LEFT"),
        Column::Right("WINDOW"),
        Column::Left("RESETS"),
        Column::Left(""),
    ];
    let mut table = Table::new(&columns);
    for limit in limits {
        table.row([
            &counted(limit),
            limit["title"].as_str().or(limit["rule"].as_str()).unwrap_or("-"),
            &number(&limit["used"]),
            &number(&limit["limit"]),
            &number(&limit["remaining"]),
            &moment::window(&limit["window_seconds"]),
            &moment::told(&limit["reset_at"], "-"),
            if limit["enforced"].as_bool() == Some(false) { "only watched" } else { "" },
        ]);
    }
    table.text()
}

/// Whom or what is counted.
fn counted(limit: &Value) -> String {
    let text = |field: &str| limit[field].as_str().unwrap_or("?").to_owned();
    if limit["policy"].is_string() {
        return format!("policy {}", text("policy"));
    }
    format!("{}: {}", text("domain"), text("descriptor"))
}

fn number(value: &Value) -> String {
    value.as_u64().map_or_else(|| "-".to_owned(), |number| number.to_string())
}
