//! Measurements of other systems on an H200, on the same sets: `benches/peers/h200.json`.

use std::collections::HashMap;

use anyhow::Result;
use serde_json::Value;

/// The table, which goes along with the program. `benches/peers/gpu_best.py` makes it.
const TABLE: &str = include_str!("../../../peers/h200.json");

/// The best of all peers, by set.
pub struct Peers {
    sets: HashMap<String, Value>,
}

/// The fastest peer at some recall.
#[derive(Clone, Debug, PartialEq)]
pub struct Best {
    /// Which it is.
    pub system: String,
    /// Its queries per second.
    pub rate: f64,
}

impl Peers {
    /// Reads the table.
    pub fn read() -> Result<Self> {
        Ok(Self { sets: serde_json::from_str(TABLE)? })
    }

    /// The fastest at recall@`k` of `recall`; nothing if none gets there or was measured.
    pub fn best(&self, set: &str, k: u32, recall: f64) -> Option<Best> {
        let of_k = match k {
            10 => "best",
            100 => "best_100",
            _ => return None,
        };
        let found = self.sets.get(set)?[of_k].as_array()?.iter().find(|best| best["recall"] == recall)?;
        Some(Best { system: found["system"].as_str()?.into(), rate: found["queries_per_second"].as_f64()? })
    }

    /// Microseconds of one call with so many queries.
    pub fn latency(&self, set: &str, queries: usize) -> Option<f64> {
        self.sets.get(set)?["latency_us"][queries.to_string()].as_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_who_is_best() {
        let peers = Peers::read().unwrap();
        let best = peers.best("sift-1m", 10, 0.95).unwrap();
        assert_eq!((best.system.as_str(), best.rate), ("CAGRA u8 nnd32", 3_400_134.0));
        assert!(peers.best("gist-1m", 100, 0.99).is_none(), "no peer gets there");
        assert!(peers.best("none-1m", 10, 0.95).is_none());
        assert!(peers.latency("deep-1m", 1).is_some_and(|us| (224.0..225.0).contains(&us)));
    }
}
