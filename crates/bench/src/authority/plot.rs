//! The curve as a picture: how many commands Redis gets for each decision, by how near demand is to the limit.

use std::fmt::Write as _;

use super::curve::Point;
use super::report;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
/// The axis of commands goes from a thousandth to ten, by powers of ten.
const POWERS: std::ops::RangeInclusive<i32> = -3..=1;

/// The picture, as SVG.
pub(super) fn svg(points: &[Point]) -> String {
    let mut svg = String::new();
    let from = points.iter().map(|point| point.demand).fold(f64::INFINITY, f64::min);
    let to = points.iter().map(|point| point.demand).fold(from + 0.1, f64::max);
    let x = |demand: f64| LEFT + (WIDTH - LEFT - RIGHT) * (demand - from) / (to - from);
    let y = |commands: f64| {
        let (low, high) = (f64::from(*POWERS.start()), f64::from(*POWERS.end()));
        let power = commands.max(1e-9).log10().clamp(low, high);
        HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (power - low) / (high - low)
    };
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(
        svg,
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">
<rect width="100%" height="100%" fill="#fff"/>
<text x="{LEFT}" y="20" font-size="14">Redis commands per decision, 100 K keys, Zipf(1.0)</text>"##
    );
    for power in POWERS {
        let (value, at) = (10_f64.powi(power), y(10_f64.powi(power)));
        let _ = writeln!(
            svg,
            r##"<path d="M{LEFT} {at:.1}H{}" stroke="#ddd"/><text x="{}" y="{:.1}" text-anchor="end">{value}</text>"##,
            WIDTH - RIGHT,
            LEFT - 8.0,
            at + 4.0
        );
    }
    for point in points {
        let at = x(point.demand);
        let _ = writeln!(
            svg,
            r##"<path d="M{at:.1} {TOP}V{}" stroke="#eee"/><text x="{at:.1}" y="{}" text-anchor="middle">{:.1}</text>"##,
            HEIGHT - BOTTOM,
            HEIGHT - BOTTOM + 18.0,
            point.demand
        );
    }
    let _ = writeln!(
        svg,
        r#"<text x="{}" y="{}" text-anchor="middle">demand, as a part of the limit</text>"#,
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 12.0
    );
    let lines = [
        (
            "exact",
            "#b45309",
            points.iter().map(|point| (point.demand, report::commands(&point.exact.turn))).collect(),
        ),
        (
            "leased",
            "#1d4ed8",
            points.iter().map(|point| (point.demand, report::commands(&point.leased.turn))).collect(),
        ),
    ];
    for (name, color, line) in lines {
        let line: Vec<(f64, f64)> = line;
        let path: Vec<String> =
            line.iter().map(|&(demand, commands)| format!("{:.1} {:.1}", x(demand), y(commands))).collect();
        let _ =
            writeln!(svg, r#"<path d="M{}" fill="none" stroke="{color}" stroke-width="2"/>"#, path.join("L"));
        for &(demand, commands) in &line {
            let _ = writeln!(
                svg,
                r#"<circle cx="{:.1}" cy="{:.1}" r="3" fill="{color}"/>"#,
                x(demand),
                y(commands)
            );
        }
        if let Some(&(demand, commands)) = line.first() {
            let _ = writeln!(
                svg,
                r#"<text x="{:.1}" y="{:.1}" fill="{color}">{name}</text>"#,
                x(demand) + 8.0,
                y(commands) - 8.0
            );
        }
    }
    svg.push_str("</svg>\n");
    svg
}
