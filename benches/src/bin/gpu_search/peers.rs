//! Measurements of other systems on an H200 with the same sets: `benches/peers/h200.json`, made by
//! `benches/peers/gpu_best.py`.

use anyhow::Result;
use serde_json::Value;

fn of_set(set: &str) -> Result<Value> {
    let mut sets: Value = serde_json::from_str(include_str!("../../../peers/h200.json"))?;
    Ok(sets[set].take())
}

/// Name and queries per second of the fastest system with a recall@`k` of `recall`; `None` if none was measured or
/// reaches it.
pub fn best(set: &str, k: usize, recall: f64) -> Result<Option<(String, f64)>> {
    let table = of_set(set)?[if k == 100 { "best_100" } else { "best" }].take();
    let best = table.as_array().and_then(|table| table.iter().find(|best| best["recall"] == recall));
    Ok(best.and_then(|best| Some((best["system"].as_str()?.into(), best["queries_per_second"].as_f64()?))))
}

/// Microseconds per call with `queries` queries.
pub fn latency(set: &str, queries: usize) -> Result<Option<f64>> {
    Ok(of_set(set)?["latency_us"][queries.to_string()].as_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_the_best_system() {
        let best = |set, k, recall| best(set, k, recall).unwrap();
        assert_eq!(best("sift-1m", 10, 0.95), Some(("CAGRA u8 nnd32".into(), 3_400_134.0)));
        assert_eq!(best("gist-1m", 100, 0.99), None, "no system reaches it");
        assert_eq!(best("none-1m", 10, 0.95), None);
        assert!(latency("deep-1m", 1).unwrap().is_some_and(|us| (224.0..225.0).contains(&us)));
    }
}
