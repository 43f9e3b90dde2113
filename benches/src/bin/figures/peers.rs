//! Measurements of other libraries on an H200 with the same sets: `benches/peers/h200.json`, made by
//! `benches/peers/gpu_best.py`.

use serde_json::Value;

/// The best of cuVS CAGRA, cuVS IVF-RaBitQ and the program of the paper's authors, by set.
#[derive(Debug, Default)]
pub struct Peers(Value);

impl Peers {
    /// Reads the contents of the file.
    ///
    /// # Errors
    /// Returns an error if it is no JSON.
    pub fn parse(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text).map(Self)
    }

    /// Recall@10 and queries per second of the Pareto front; an empty array if the set was not measured.
    pub fn front(&self, set: &str) -> &Value {
        &self.0[set]["front"]
    }

    /// Queries per second of the fastest index with a recall@`k` of `recall`; `None` if none reaches it.
    pub fn rate(&self, set: &str, k: u64, recall: f64) -> Option<f64> {
        let table = self.0[set][if k == 100 { "best_100" } else { "best" }].as_array()?;
        table.iter().find(|best| best["recall"] == recall)?["queries_per_second"].as_f64()
    }

    /// Microseconds per call with `queries` queries.
    pub fn latency_us(&self, set: &str, queries: &Value) -> Option<f64> {
        self.0[set]["latency_us"][queries.to_string()].as_f64()
    }

    /// Name and seconds of the fastest build.
    pub fn build(&self, set: &str) -> Option<(&str, f64)> {
        let build = &self.0[set]["build"];
        build["system"].as_str().zip(build["seconds"].as_f64())
    }
}

#[cfg(test)]
pub fn sample() -> Peers {
    Peers::parse(include_str!("../../../peers/h200.json")).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_best_are_those_of_the_file() {
        let peers = sample();
        assert_eq!(peers.rate("sift-1m", 10, 0.95), Some(3_400_134.0));
        assert_eq!(peers.rate("gist-1m", 100, 0.99), None, "none reaches it");
        assert_eq!(peers.rate("none-1m", 10, 0.95), None);
        assert_eq!(peers.latency_us("deep-1m", &json!(1)), Some(224.791));
        assert_eq!(peers.build("gist-1m"), Some(("IVF-RaBitQ 4096 lists, 8 bits", 2.053)));
    }
}
