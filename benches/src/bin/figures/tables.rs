//! Markdown tables. A table without rows is empty.

use serde_json::Value;

use crate::lines::{Lines, Subject, distinct, number, subjects, text};
use crate::peers::Peers;

/// Beam widths that are listed.
const WIDTHS: [u64; 6] = [10, 16, 32, 64, 128, 256];

/// Million queries per second at equal recall@`k`, with the ratio to the best other library, and the highest recall.
pub fn recall(lines: &Lines, peers: &Peers, k: u64) -> String {
    let of_k = |line: &&Value| line["k"] == k;
    let equal: Vec<&Value> = lines.kind("equal_recall").into_iter().filter(of_k).collect();
    let widths: Vec<&Value> = lines.kind("widths").into_iter().filter(of_k).collect();
    let recalls = distinct(&equal, "recall");
    let names: String = recalls.iter().map(|recall| format!("{recall} | ")).collect();
    let row = |subject: Subject<'_>| {
        let at = |recall: &&Value| {
            let line = equal.iter().find(|line| subject.matches(line) && line["recall"] == **recall);
            line.map_or("-".into(), |line| speed(line, peers.rate(subject.set, k, number(recall))))
        };
        let widest = widths.iter().find(|line| subject.matches(line));
        let highest = widest.map_or("-".into(), |line| format!("{:.4}", number(&line["widest_recall"])));
        [subject.to_string()].into_iter().chain(recalls.iter().map(at)).chain([highest]).collect()
    };
    table(&format!("set, vectors | {names}highest"), subjects(&equal).into_iter().map(row))
}

/// Queries per second, recall, hops, distances and bandwidth by beam width.
pub fn widths(lines: &Lines) -> String {
    let mut rows = Vec::new();
    for line in lines.kind("widths").into_iter().filter(|line| line["k"] == 10) {
        let mut name = Subject::from_line(line).to_string();
        let points = line["points"].as_array().map(Vec::as_slice).unwrap_or_default();
        for point in points.iter().filter(|point| WIDTHS.iter().any(|width| point[0] == *width)) {
            let at = |column: usize| number(&point[column]);
            rows.push(vec![
                std::mem::take(&mut name),
                format!("{}", at(0)),
                millions(at(1)),
                format!("{:.4}", at(2)),
                format!("{:.1}", at(3)),
                thousands(at(4)),
                thousands(at(5)),
                percent(at(6)),
            ]);
        }
    }
    let head =
        "set, vectors | beam width | M queries/s | recall@10 | hops | distances | GB/s | relative to a copy";
    table(head, rows)
}

/// Batches of 100,000 queries at the settings that reach a recall.
pub fn many(lines: &Lines) -> String {
    let row = |line: &Value| {
        vec![
            Subject::from_line(line).to_string(),
            thousands(number(&line["queries"])),
            line["beam_width"].to_string(),
            format!("{:.4}", number(&line["recall"])),
            millions(number(&line["queries_per_second"])),
        ]
    };
    table(
        "set, vectors | queries | beam width | recall@10 | M queries/s",
        lines.kind("batch").into_iter().map(row),
    )
}

/// Build, memory and speed by the number of vectors.
pub fn scale(lines: &Lines) -> String {
    let row = |line: &Value| {
        let gigabytes = |field: &str| format!("{:.2}", number(&line[field]) / 1e9);
        vec![
            thousands(number(&line["vectors"])),
            format!("{:.1}", number(&line["build_seconds"])),
            gigabytes("device_bytes"),
            gigabytes("quantized_device_bytes"),
            millions(number(&line["exact"])),
            millions(number(&line["quantized"])),
        ]
    };
    let head = "vectors | build, s | GB | GB with codes | M queries/s by vectors | by codes";
    table(head, lines.kind("scale").into_iter().map(row))
}

/// Latency in microseconds by queries per call: the fastest team of each set.
pub fn latency(lines: &Lines, peers: &Peers) -> String {
    let all = lines.kind("latency");
    let mut rows = Vec::new();
    for subject in subjects(&all) {
        for queries in distinct(&all, "queries") {
            let of_call = all.iter().filter(|line| subject.matches(line) && line["queries"] == *queries);
            let fastest = of_call.min_by(|a, b| number(&a["median_us"]).total_cmp(&number(&b["median_us"])));
            let Some(line) = fastest else { continue };
            rows.push(vec![
                subject.to_string(),
                queries.to_string(),
                format!("{} warps, {} ahead", line["warps"], line["expansions"]),
                format!("{:.4}", number(&line["recall"])),
                format!("{:.0}", number(&line["median_us"])),
                format!("{:.0}", number(&line["p99_us"])),
                peers.latency_us(subject.set, queries).map_or("-".into(), |us| format!("{us:.0}")),
            ]);
        }
    }
    table(
        "set, vectors | queries | team | recall@10 | median µs | 99th percentile | best other library",
        rows,
    )
}

/// Build times, and the fastest build of another library.
pub fn graphs(lines: &Lines, peers: &Peers) -> String {
    let row = |line: &Value| {
        let build = peers.build(text(line, "set"));
        vec![
            text(line, "set").to_owned(),
            format!("{}, {} threads", text(line, "device"), line["threads"]),
            format!("{:.1}", number(&line["seconds"])),
            thousands(number(&line["rows_per_second"])),
            build.map_or("-".into(), |(name, seconds)| format!("{seconds:.2} ({name})")),
        ]
    };
    let head = "set | built on | seconds | vectors per second | fastest other build, seconds";
    table(head, lines.kind("build").into_iter().map(row))
}

/// `4,700 (0.98)`: GB/s of rows by dimension, and the share of the best rate near it.
pub fn row_lengths(lines: &Lines) -> String {
    let all = lines.kind("row_length");
    let name = |line: &Value| format!("{}, {}", text(line, "element"), text(line, "metric"));
    let mut names: Vec<String> = Vec::new();
    for line in &all {
        if !names.contains(&name(line)) {
            names.push(name(line));
        }
    }
    let row = |dimension: &Value| {
        let cell = |wanted: &String| {
            let is_cell = |line: &&&Value| name(line) == *wanted && line["dimension"] == *dimension;
            all.iter().find(is_cell).map_or("-".to_owned(), |line| {
                format!("{} ({:.2})", thousands(number(&line["gb_per_s"])), number(&line["share"]))
            })
        };
        [dimension.to_string()].into_iter().chain(names.iter().map(cell)).collect()
    };
    table(&format!("dimension | {}", names.join(" | ")), distinct(&all, "dimension").into_iter().map(row))
}

/// `18.4 (5.40)`: million queries per second and the ratio to the best other library; `>` if the fastest setting
/// exceeds the recall.
fn speed(line: &Value, peer: Option<f64>) -> String {
    let mark = if line["at_least"] == true { ">" } else { "" };
    let rate = number(&line["queries_per_second"]);
    let ratio = peer.map_or(String::new(), |peer| format!(" ({:.2})", rate / peer));
    format!("{mark}{}{ratio}", millions(rate))
}

/// To three digits.
fn millions(number: f64) -> String {
    let millions = number / 1e6;
    let decimals = 3 - usize::from(millions >= 1.0) - usize::from(millions >= 10.0);
    format!("{millions:.decimals$}")
}

/// `1,234,567`
pub fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups.join(",")
}

fn percent(share: f64) -> String {
    format!("{:.0}%", 100.0 * share)
}

/// A table of a header, its cells separated by ` | `, and rows; the first column holds names, the others numbers.
pub fn table(head: &str, rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let rows: Vec<String> = rows.into_iter().map(|row| format!("| {} |\n", row.join(" | "))).collect();
    if rows.is_empty() {
        return String::new();
    }
    let rule = " ---: |".repeat(head.matches(" | ").count());
    format!("| {head} |\n| --- |{rule}\n{}", rows.concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::sample;
    use crate::peers;

    #[test]
    fn recall_shows_the_ratio_to_the_best_other_library() {
        let expected = "| set, vectors | 0.9 | 0.95 | highest |\n| --- | ---: | ---: | ---: |\n\
                        | sift-1m, u8 | >24.1 (3.85) | 18.4 (5.41) | 0.9993 |\n| deep-1m, f16 | - | 0.980 (0.25) | 0.9990 |\n";
        assert_eq!(recall(&sample(), &peers::sample(), 10), expected);
        assert_eq!(recall(&sample(), &peers::sample(), 100).lines().count(), 3);
    }

    #[test]
    fn widths_list_their_cost() {
        let table = widths(&sample());
        assert!(table.contains("|  | 16 | 18.4 | 0.9500 | 18.1 | 1,043 | 4,600 | 108% |"), "{table}");
        assert!(!table.contains("| 1024 |"), "only the listed widths are shown: {table}");
    }

    #[test]
    fn only_the_fastest_team_is_listed() {
        let table = latency(&sample(), &peers::sample());
        assert!(table.contains("| sift-1m, u8 | 1 | 8 warps, 2 ahead | 0.9510 | 61 | 75 | 248 |"), "{table}");
        assert_eq!(table.lines().count(), 3, "{table}");
    }

    #[test]
    fn lengths_are_listed_by_dimension() {
        let expected = "| dimension | f16, l2 | f16, ip |\n| --- | ---: | ---: |\n\
                        | 96 | 4,413 (0.89) | 4,400 (1.00) |\n| 128 | 4,945 (1.00) | - |\n";
        assert_eq!(row_lengths(&sample()), expected);
    }

    #[test]
    fn batches_and_builds_are_listed() {
        assert!(
            many(&sample()).contains("| sift-1m, u8 | 100,000 | 16 | 0.9500 | 23.3 |"),
            "{}",
            many(&sample())
        );
        assert!(
            graphs(&sample(), &peers::sample()).contains(
                "| sift-1m | cpu, 16 threads | 25.5 | 39,216 | 0.18 (IVF-RaBitQ 1024 lists, 8 bits) |"
            ),
            "{}",
            graphs(&sample(), &peers::sample())
        );
    }
}
