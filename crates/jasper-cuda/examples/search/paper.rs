//! Each choice of the kernel against its alternatives: a variant is a row of a table.

use anyhow::Result;
use gpu_kernels::search::Search;
use jasper_core::Element;
use jasper_graph::{Graph, TunedLaunch};
use serde_json::json;

use super::bench::Bench;
use super::card::Card;
use super::curves::QUERIES;
use super::point::{Point, SOLO, Setting, merge};
use super::set::Set;

/// Beam widths of every variant.
const WIDTHS: [u32; 6] = [10, 16, 32, 64, 128, 256];

/// The kernel with one thing done differently.
struct Variant {
    /// The table it belongs to.
    table: &'static str,
    /// Its row there.
    row: String,
    /// How the work is shared out.
    launch: TunedLaunch,
    /// Which kernel of the family, from the one that the library would take.
    kernel: fn(Search) -> Search,
}

/// Every table of the paper that is about search on exact vectors, and the launches that have come since.
fn variants() -> Vec<Variant> {
    let library = |table, row: String, launch| Variant { table, row, launch, kernel: |library| library };
    let mut variants = Vec::new();
    for filter_slots in [0, 256, 512, 1024, 2048] {
        let row =
            if filter_slots == 0 { "visited mark alone".into() } else { format!("{filter_slots} slots") };
        variants.push(library("filter of seen ids", row, TunedLaunch { filter_slots, ..SOLO }));
    }
    for expansions in [1, 2, 4] {
        let row = format!("{expansions}");
        variants.push(library("expansions a step", row, TunedLaunch { expansions, ..SOLO }));
    }
    for warps in [1, 8] {
        let row = format!("{}", 32 * warps);
        variants.push(library("threads a query", row, TunedLaunch { warps, ..SOLO }));
    }
    variants
}

/// Measures all variants on one set in one element. Gives a row for each.
pub fn run<T: Element>(bench: &Bench, set: &Set, graph: &Graph<T>) -> Result<Vec<String>> {
    let queries = set.queries::<T>()?;
    let card = Card::new(&bench.stream, graph, queries.view(), QUERIES)?;
    let mut rows = Vec::new();
    for Variant { table, row, launch, kernel } in variants() {
        let mut points = Vec::new();
        for beam_width in WIDTHS {
            if bench.clock.is_over() {
                break;
            }
            let setting = Setting { k: 10, beam_width, launch };
            let point = card.measure(&kernel(card.kernel(setting)), set, setting, QUERIES)?;
            let mut line = json!({
                "what": "variant", "table": table, "row": row, "set": set.name, "element": T::KIND.name(),
            });
            merge(&mut line, point.line(bench.copy));
            println!("{line}");
            points.push(point);
        }
        let name = format!("{} {}", set.name, T::KIND);
        rows.push(format!("{name:<16} {table:<20} {row:<20}{}", cells(&points)));
    }
    Ok(rows)
}

/// Million queries a second at each width.
fn cells(points: &[Point]) -> String {
    points.iter().map(|point| format!(" {:>8.3}", point.rate / 1e6)).collect()
}

/// What stands over the rows.
pub fn header() -> String {
    let widths: String = WIDTHS.iter().map(|width| format!(" {width:>8}")).collect();
    format!("{:<16} {:<20} {:<20}{widths}   million queries/s by beam width", "set", "table", "variant")
}
