//! Reports of the steps of a runbook and of their sum, as JSON and as text.

use std::fmt::Write;

use anyhow::Result;
use jasper_runbook::{Event, Rebuild, StepReport};
use serde_json::{Value, json};

use crate::{process, units};

/// The columns of [`step`].
pub fn header(k: usize) -> String {
    let recall = format!("recall@{k}");
    let [step, count, took, rate] = ["step", "count", "took", "per second"];
    format!(
        "{step:>6}  {:12}{count:>11}{took:>11}{rate:>13}{:>13}{:>12}{recall:>12}",
        "", "vectors", "tombstones"
    )
}

/// A step, or a consolidation after it.
pub fn step(report: &StepReport) -> (Value, String) {
    let StepReport { step, event, count, time, stats, .. } = report;
    let (event_name, seconds) = (event.name(), time.as_secs_f64());
    let rate = per_second(*count, seconds);
    let mut json = json!({
        "step": step,
        "event": event_name,
        // Vectors, freed slots or queries.
        "count": count,
        // Time of the step without computing true neighbors.
        "seconds": seconds,
        "per_second": rate,
        // Keys in the index.
        "vectors": stats.keys,
        // Deleted vertices that are still traversed.
        "tombstones": stats.tombstones,
        // Free slots.
        "free": stats.free_slots,
        // Bytes of vectors and graph.
        "bytes": stats.vector_bytes + stats.graph_bytes,
    });
    let [counted, vectors, tombstones] = [*count, stats.keys, stats.tombstones].map(units::count);
    let (took, rate) = (units::seconds(seconds), units::rate(rate));
    let mut text =
        format!("{step:>6}  {event_name:12}{counted:>11}{took:>11}{rate:>13}{vectors:>13}{tombstones:>12}");
    if let Event::Search { recall, cost, truth_time, .. } = event {
        json["recall"] = (*recall).into();
        json["mean_hops"] = (cost.hops as f64 / *count as f64).into();
        json["mean_distances"] = (cost.distances as f64 / *count as f64).into();
        json["truth_seconds"] = truth_time.as_secs_f64().into();
        text += &format!("{recall:>12.4}");
    }
    (json, text)
}

/// An index built from the final vectors.
pub fn rebuild(report: &Rebuild) -> (Value, String) {
    let (mut json, _) = step(&report.search);
    json["event"] = "rebuild".into();
    json["build_seconds"] = report.build_time.as_secs_f64().into();
    let (vectors, took) =
        (units::count(report.search.stats.keys), units::seconds(report.build_time.as_secs_f64()));
    let recall = recall(&report.search).unwrap_or_default();
    let text =
        format!("rebuilt  recall {recall:.4} by an index built from the {vectors} final vectors in {took}");
    (json, text)
}

/// The recall of a search.
pub fn recall(report: &StepReport) -> Option<f64> {
    match report.event {
        Event::Search { recall, .. } => Some(recall),
        _ => None,
    }
}

/// All steps.
pub fn total(steps: &[StepReport]) -> Result<(Value, String)> {
    let recalls: Vec<(f64, usize)> =
        steps.iter().filter_map(|report| Some((recall(report)?, report.step))).collect();
    let mean = (!recalls.is_empty())
        .then(|| recalls.iter().map(|(recall, _)| recall).sum::<f64>() / recalls.len() as f64);
    let least = recalls.iter().copied().min_by(|a, b| a.0.total_cmp(&b.0));
    let peak = process::peak_bytes();
    let mut json = json!({
        "steps": steps.last().map_or(0, |report| report.step),
        "searches": recalls.len(),
        "mean_recall": mean,
        // The lowest recall, and its step.
        "least_recall": least,
        "peak_bytes": peak,
    });
    let mut text = String::new();
    for (event, key, verb, what) in [
        ("insert", "inserted", "inserted", "vectors"),
        ("replace", "replaced", "replaced", "vectors"),
        ("delete", "deleted", "deleted", "vectors"),
        ("consolidate", "freed", "freed", "tombstones"),
        ("search", "queries", "searched", "queries"),
    ] {
        let of_event = || steps.iter().filter(|report| report.event.name() == event);
        let count = of_event().map(|report| report.count).sum();
        let seconds: f64 = of_event().map(|report| report.time.as_secs_f64()).sum();
        let rate = per_second(count, seconds);
        json[key] = json!({ "count": count, "seconds": seconds, "per_second": rate });
        if count > 0 {
            let (count, took, rate) = (units::count(count), units::seconds(seconds), units::rate(rate));
            writeln!(text, "{verb:9}{count} {what} in {took}: {rate} per second")?;
        }
    }
    if let (Some(mean), Some((least, step))) = (mean, least) {
        writeln!(text, "recall   {mean:.4} on average, minimum {least:.4} in step {step}")?;
    }
    write!(text, "memory   {} peak", units::bytes(peak.unwrap_or_default()))?;
    Ok((json, text))
}

fn per_second(count: usize, seconds: f64) -> f64 {
    count as f64 / seconds.max(f64::MIN_POSITIVE)
}
