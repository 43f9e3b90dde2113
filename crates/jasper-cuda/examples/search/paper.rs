//! Each choice of the kernel against its alternatives: a variant is a row of a table.

use anyhow::Result;
use gpu_kernels::distances::Loads;
use gpu_kernels::search::{Choice, Variant};
use jasper_core::Element;
use jasper_graph::{Graph, TunedLaunch};
use serde_json::json;

use super::bench::Bench;
use super::card::Card;
use super::curves::QUERIES;
use super::point::{Point, SOLO, Setting, merge};
use super::renamed::from_the_start;
use super::set::Set;

/// The PTX of the variants: with the feature of that name.
#[cfg(feature = "variants")]
const VARIANTS: Option<&[u8]> = Some(include_bytes!("../../../../gpu-kernels/ptx/variants.archive"));
#[cfg(not(feature = "variants"))]
const VARIANTS: Option<&[u8]> = None;

/// Bytes of rows near the start that are kept in the second cache: a third of an H200's, so that others have their share.
const KEPT_BYTES: usize = 16 << 20;

/// Beam widths of every row that takes them.
const WIDTHS: [u32; 6] = [10, 16, 32, 64, 128, 256];

/// One line of a table.
#[derive(Clone, Debug)]
struct Row {
    /// The table it belongs to.
    table: &'static str,
    /// What is different.
    name: String,
    /// How the work is shared out.
    launch: TunedLaunch,
    kernel: Kind,
}

/// Which kernel is launched.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// What the library would take, at every beam width.
    Library,
    /// The library's for the widest beam that variants take, so that the two differ in one thing.
    BesideVariants,
    /// The library's, but for the frontier: in shared memory at every beam width.
    InSharedMemory,
    /// One that differs.
    Variant(Variant),
}

impl Row {
    fn new(table: &'static str, name: impl ToString, launch: TunedLaunch, kernel: Kind) -> Self {
        Self { table, name: name.to_string(), launch, kernel }
    }

    /// Whether its kernel takes a beam.
    fn takes(&self, beam_width: u32) -> bool {
        matches!(self.kernel, Kind::Library | Kind::InSharedMemory) || beam_width <= Variant::MOST_ENTRIES
    }
}

/// The tables that every kind of rows has: what a launch may choose.
fn of_launches() -> Vec<Row> {
    let filters = [0, 256, 512, 1024, 2048].map(|filter_slots| {
        let name =
            if filter_slots == 0 { "visited mark alone".into() } else { format!("{filter_slots} slots") };
        Row::new("filter of seen ids", name, TunedLaunch { filter_slots, ..SOLO }, Kind::Library)
    });
    let expansions = [1, 2, 4].map(|expansions| {
        Row::new("expansions a step", expansions, TunedLaunch { expansions, ..SOLO }, Kind::Library)
    });
    let frontiers = [("registers", Kind::Library), ("shared memory", Kind::InSharedMemory)]
        .map(|(name, kernel)| Row::new("frontier", name, SOLO, kernel));
    filters.into_iter().chain(expansions).chain(frontiers).collect()
}

/// What the library does, as a row of each table that variants are beside it in.
const USUAL: [(&str, &str); 4] =
    [("queries a block", "1"), ("threads a query", "32"), ("grid", "a block a query"), ("sums", "floats")];

/// The tables of rows that there are variants for: blocks, loads and tiles; then each choice of the kernel undone alone.
fn of_variants(variants: &[Variant]) -> Vec<Row> {
    let library = |table, name: &str, launch| Row::new(table, name, launch, Kind::BesideVariants);
    let mut rows = Vec::new();
    let no_filter = TunedLaunch { filter_slots: 0, ..SOLO };
    let mut undone = vec![library("ablation", "as it is", SOLO), library("ablation", "no filter", no_filter)];
    for &variant in variants {
        let launch = match variant.choice() {
            Choice::Warps(warps) => TunedLaunch { warps, ..SOLO },
            _ => SOLO,
        };
        let row = |table, name: String| Row::new(table, name, launch, Kind::Variant(variant));
        let (table, name, is_undone) = match variant.choice() {
            Choice::Rows(loads, lanes) => {
                let name = format!("{}, {lanes} lanes", loads.name());
                if [8, 32].contains(&lanes) {
                    rows.push(row("loads", name.clone()));
                }
                let is_undone = [(Loads::Tiled, 8), (Loads::Chunked, 32)].contains(&(loads, lanes));
                ("tile width", name, is_undone)
            }
            Choice::Queries(queries) => ("queries a block", queries.to_string(), queries == 8),
            Choice::Warps(warps) => ("threads a query", (32 * warps).to_string(), warps == 4),
            Choice::Persistent(blocks) => ("grid", format!("{blocks} blocks that stay"), false),
            Choice::Halves => ("sums", "halves".to_owned(), false),
            Choice::Unmarked => {
                let neither = Row::new("ablation", "no filter, no mark", no_filter, Kind::Variant(variant));
                undone.extend([row("ablation", "no mark".into()), neither]);
                continue;
            }
        };
        if is_undone {
            let what = if table == "tile width" { name.clone() } else { format!("{name} {table}") };
            undone.push(row("ablation", what));
        }
        if !matches!(variant.choice(), Choice::Rows(Loads::Tiled, _)) {
            rows.push(row(table, name));
        }
    }
    let has = |rows: &[Row], table: &str| rows.iter().any(|row| row.table == table);
    let usual = USUAL.into_iter().filter(|(table, _)| has(&rows, table));
    let mut all: Vec<Row> = usual.map(|(table, name)| library(table, name, SOLO)).collect();
    if has(&rows, "threads a query") {
        rows.push(library("threads a query", "256", TunedLaunch { warps: 8, ..SOLO }));
    }
    all.append(&mut rows);
    // What was undone alone, if anything was.
    if undone.len() > 2 {
        all.append(&mut undone);
    }
    all
}

/// Measures all variants on one set in one element. Gives a row for each.
pub fn run<T: Element>(bench: &Bench, set: &Set, graph: &Graph<T>) -> Result<Vec<String>> {
    let queries = set.queries::<T>()?;
    let copy = bench.upload(&set.name, graph)?;
    let card = Card::new(&bench.stream, graph, copy, queries.view(), QUERIES)?;
    let variants: Vec<Variant> = match VARIANTS {
        Some(ptx) => {
            bench.stream.context().add_kernels(ptx);
            card.variants().collect()
        }
        None => {
            bench.clock.say("no table of variants: they are there with `--features variants`");
            Vec::new()
        }
    };
    let mut cells = Vec::new();
    for row in of_launches().into_iter().chain(of_variants(&variants)) {
        cells.push(measure(bench, set, &card, &row)?);
    }
    // Another graph beside the first one may not fit.
    match start_region(bench, set, graph, &card) {
        Ok(more) => cells.extend(more),
        Err(error) => bench.clock.say(format_args!("{}: no start region: {error:#}", set.name)),
    }
    Ok(cells)
}

/// What it is worth that the vertices around the start lie together, and in the second cache.
fn start_region<T: Element>(
    bench: &Bench,
    set: &Set,
    graph: &Graph<T>,
    card: &Card<'_, T>,
) -> Result<Vec<String>> {
    let row = |name: &str| Row::new("start region", name, SOLO, Kind::Library);
    let mut cells = vec![measure(bench, set, card, &row("as built"))?];
    let renamed = from_the_start(graph)?;
    let copy = bench.upload(&set.name, &renamed)?;
    let together = Card::new(&bench.stream, &renamed, copy, set.queries::<T>()?.view(), QUERIES)?;
    cells.push(measure(bench, set, &together, &row("together"))?);
    let rows = together.graph.args().rows;
    bench.stream.keep_in_cache(rows, KEPT_BYTES)?;
    cells.push(measure(bench, set, &together, &row("together, 16 MB of rows kept in L2"))?);
    bench.stream.keep_in_cache(rows, 0)?;
    Ok(cells)
}

/// Measures a row of a table at all beam widths that it takes.
fn measure<T: Element>(bench: &Bench, set: &Set, card: &Card<'_, T>, row: &Row) -> Result<String> {
    let mut points = Vec::new();
    for beam_width in WIDTHS.into_iter().filter(|&width| row.takes(width)) {
        if bench.clock.is_over() {
            break;
        }
        let setting = Setting { k: 10, beam_width, launch: row.launch };
        let widest = Setting { beam_width: Variant::MOST_ENTRIES, ..setting };
        let point = match &row.kernel {
            Kind::Library => card.measure(&card.kernel(setting), set, setting, QUERIES)?,
            Kind::InSharedMemory => {
                card.measure(&card.kernel(setting).in_shared_memory(), set, setting, QUERIES)?
            }
            Kind::BesideVariants => card.measure(&card.kernel(widest), set, setting, QUERIES)?,
            Kind::Variant(variant) => card.measure(variant, set, setting, QUERIES)?,
        };
        let mut line = json!({
            "what": "variant", "table": row.table, "row": row.name, "set": set.name, "element": T::KIND.name(),
        });
        merge(&mut line, point.line(bench.copy));
        println!("{line}");
        points.push(point);
    }
    let name = format!("{} {}", set.name, T::KIND);
    Ok(format!("{name:<16} {:<20} {:<24}{}", row.table, row.name, rates(&points)))
}

/// Million queries a second at each width.
fn rates(points: &[Point]) -> String {
    points.iter().map(|point| format!(" {:>8.3}", point.rate / 1e6)).collect()
}

/// What stands over the rows.
pub fn header() -> String {
    let widths: String = WIDTHS.iter().map(|width| format!(" {width:>8}")).collect();
    format!("{:<16} {:<20} {:<24}{widths}   million queries/s by beam width", "set", "table", "row")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use gpu_kernels::distances::Measure;
    use jasper_core::ElementKind;

    #[test]
    fn every_table_has_rows_that_differ() {
        let bytes =
            of_variants(&Variant::of(ElementKind::U8, Measure::SquaredL2, 128, 132).collect::<Vec<_>>());
        let rows: Vec<Row> = of_launches().into_iter().chain(bytes).collect();
        let count = |table: &str| rows.iter().filter(|row| row.table == table).count();
        let tables = [
            ("filter of seen ids", 5),
            ("expansions a step", 3),
            ("frontier", 2),
            ("queries a block", 4),
            ("threads a query", 4),
            ("loads", 4),
            ("tile width", 5),
            ("grid", 4),
            ("ablation", 8),
        ];
        for (table, expected) in tables {
            assert_eq!(count(table), expected, "{table}");
        }
        let names: BTreeSet<_> = rows.iter().map(|row| (row.table, &row.name)).collect();
        assert_eq!(names.len(), tables.iter().map(|(_, count)| count).sum::<usize>(), "no name comes twice");
        assert!(of_variants(&[]).is_empty(), "rows without variants have no table of them");
        let halves =
            of_variants(&Variant::of(ElementKind::F16, Measure::SquaredL2, 192, 132).collect::<Vec<_>>());
        let tables: BTreeSet<_> = halves.iter().map(|row| row.table).collect();
        assert_eq!((halves.len(), tables), (6, BTreeSet::from(["grid", "sums"])));
    }
}
