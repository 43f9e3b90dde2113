//! Lines of JSON as rows of text.

use serde_json::Value;

/// The columns of [`set`].
pub const HEAD: &str = "set                      rows   dim   build s  degree  thin | recall@10 at 32, 64, 128, 256, 512 \
                        | queries/s at 0.95, 0.98, 0.99";

/// The row of a set.
pub fn set(line: &Value) -> String {
    format!(
        "{:<21}{:>8} {:>5} {:>9.2} {:>7.1} {:>5.2} |{}",
        text(&line["set"]),
        number(&line["rows"]),
        number(&line["dimension"]),
        number(&line["build_seconds"]),
        number(&line["mean_degree"]),
        number(&line["thin"]),
        curve(line)
    )
}

/// The row of codes: what was chosen, in how many seconds, and searches by it.
pub fn codes(line: &Value) -> String {
    let chosen = line["codes"].as_str().unwrap_or("no codes");
    format!("    {chosen:<30} {:>9.2} {:>14}|{}", number(&line["seconds"]), "", curve(line))
}

/// Recalls by beam width, and rates.
fn curve(line: &Value) -> String {
    let rates = values(&line["rates"]).map(|rate| match rate[1].as_f64() {
        Some(value) => format!("{:>10}", format!("{}{value}", if rate[2] == true { ">" } else { "" })),
        None => format!("{:>10}", "-"),
    });
    let recalls = values(&line["points"]).filter(|point| number(&point[0]) >= 32.0);
    let recalls = recalls.map(|point| format!(" {:.4}", number(&point[1])));
    format!("{} |{}", recalls.collect::<String>(), rates.collect::<String>())
}

/// The row of a change: recall after it, and of a new index, by beam width.
pub fn change(line: &Value) -> String {
    let points = values(&line["points"]).map(|point| {
        format!(" | {}: {:.4}, rebuilt {:.4}", number(&point[0]), number(&point[1]), number(&point[2]))
    });
    let points: String = points.collect();
    format!("    {:<24} degree {:>4.1}{points}", text(&line["change"]), number(&line["mean_degree"]))
}

fn values(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}
