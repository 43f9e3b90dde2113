//! Recall and queries per second of large batches in device memory.

use anyhow::Result;
use jasper_core::Element;
use jasper_graph::Graph;
use jasper_vamana::TunedLaunch;
use serde_json::json;

use super::bench::Bench;
use super::codes::{self, Coder};
use super::curve::{Measure, launches, measure_curve};
use super::device_search::DeviceSearch;
use super::front::fastest_at;
use super::peers::Peers;
use super::point::{Point, SOLO, Setting, merge};
use super::report::Report;
use super::set::Set;

/// Queries of a batch, as the peers were asked.
pub const QUERIES: usize = 10_000;
/// Queries of a large batch, which fills the device many times.
const MANY: usize = 100_000;
/// Recalls at which large batches are asked.
const MANY_AT: [f64; 3] = [0.90, 0.95, 0.99];

/// Measures one set in one element. Gives a row of the table for each k.
pub fn run<T: Element>(bench: &Bench, set: &Set, graph: &Graph<T>) -> Result<Vec<String>> {
    let peers = Peers::read()?;
    let queries = set.queries::<T>()?;
    let copy = bench.upload(&set.name, graph)?;
    let search = DeviceSearch::new(&bench.stream, graph, copy, queries.view(), MANY)?;
    let code = graph.vectors().codes().map(|codes| codes.quantizer().quantization().to_string());
    let mut coder = match &code {
        Some(_) => Some(Coder::new(&bench.stream, graph, MANY, bench.options.rerank)?),
        None => None,
    };
    let mut measure = |what: &str, setting: Setting, queries: usize| -> Result<Option<Point>> {
        if bench.deadline.is_over() {
            return Ok(None);
        }
        let point = match &mut coder {
            Some(coder) => search.measure_quantized(coder, set, setting, queries)?,
            None => search.measure(&search.kernel(setting), set, setting, queries)?,
        };
        let vectors = bench.options.vectors.to_string();
        let mut line = json!({
            "what": what, "set": set.name, "element": T::KIND.name(), "codes": code, "vectors": vectors,
        });
        merge(&mut line, point.line(bench.copy));
        println!("{line}");
        Ok(Some(point))
    };
    let several = [1, 2, 4].map(|expansions| TunedLaunch { expansions, ..SOLO });
    let mut rows = Vec::new();
    let launches = match &code {
        Some(_) => [codes::launches(), codes::launches()],
        None => [launches(), several.to_vec()],
    };
    for (k, launches) in [10, 100].into_iter().zip(launches) {
        bench.deadline.log(format_args!("{} {}: recall@{k}", set.name, T::KIND));
        let ask: &mut Measure<'_, anyhow::Error> = &mut |setting| measure("point", setting, QUERIES);
        let points = measure_curve(k, &launches, ask)?;
        let codes = code.as_deref();
        let report = Report { set: &set.name, element: T::KIND, codes, k, points: &points, copy: bench.copy };
        report.lines(&peers).iter().for_each(|line| println!("{line}"));
        rows.push(report.row(&peers));
        for recall in MANY_AT.into_iter().filter(|_| k == 10) {
            if let Some(point) = fastest_at(&points, recall) {
                measure("batch", point.setting, MANY)?;
            }
        }
    }
    Ok(rows)
}
