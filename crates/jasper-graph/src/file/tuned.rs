//! Tuned searches: search parameters that were measured to reach a recall, stored with a graph and in its file.

use std::cmp::Ordering;

use bytemuck::{Pod, Zeroable};
use jasper_core::LaunchParams;

use super::{FileFault, Section};
use crate::Graph;

/// A search that was measured to reach a recall on a device.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct TunedSearch {
    /// Name of the CPU or GPU it was measured on; 64 bytes of it are stored.
    pub device: String,
    /// Results per query.
    pub k: usize,
    /// The recall@k to reach, from 0 to 1.
    pub target: f64,
    /// Queries per call.
    pub batch: usize,
    /// The smallest beam width that reached the target.
    pub beam_width: usize,
    /// Launch parameters on a GPU; `None` on a CPU.
    pub launch: Option<LaunchParams>,
    /// The recall@k reached, on queries that were not used to choose the search.
    pub recall: f64,
    /// Throughput in calls of `batch` queries.
    pub queries_per_second: f64,
    /// [`Graph::fingerprint`], a checksum of parameters and counts, when it was measured. Not serialized.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub fingerprint: u32,
}

/// A search as the section `tuned searches` holds it.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct TunedRecord {
    /// Name of the device, filled up with zeros.
    device: [u8; DEVICE_BYTES],
    target: f64,
    recall: f64,
    queries_per_second: f64,
    k: u32,
    batch: u32,
    beam_width: u32,
    /// 0 on a CPU.
    warps: u32,
    expansions: u32,
    visited_buckets: u32,
    fingerprint: u32,
    reserved: [u32; 3],
}

pub(super) const RECORD_BYTES: usize = size_of::<TunedRecord>();
const DEVICE_BYTES: usize = 64;

impl TunedSearch {
    /// Returns the searches stored with a graph.
    ///
    /// # Errors
    /// Returns the errors of [`Self::decode`].
    pub fn stored(graph: &Graph) -> Result<Vec<Self>, FileFault> {
        Self::decode(graph.encoded_tuned_searches())
    }

    /// Stores the search with a graph, replacing one for the same device, target, k and batch. Searches that cannot be
    /// decoded are dropped.
    pub fn store(&self, graph: &mut Graph) {
        let mut searches = Self::stored(graph).unwrap_or_default();
        let search = Self { device: self.stored_name().to_owned(), ..self.clone() };
        match searches.binary_search_by(|other| other.order(&search)) {
            Ok(at) => searches[at] = search,
            Err(at) => searches.insert(at, search),
        }
        let records: Vec<TunedRecord> = searches.iter().map(Self::encode).collect();
        graph.set_encoded_tuned_searches(bytemuck::cast_slice(&records).to_vec());
    }

    /// Decodes the section `tuned searches` of a file: searches in ascending order of device, target, k and batch.
    ///
    /// # Errors
    /// Returns [`FileFault::Invalid`] if the section cannot be decoded.
    pub fn decode(section: &[u8]) -> Result<Vec<Self>, FileFault> {
        let invalid = |problem| FileFault::Invalid { section: Section::TunedSearches, problem };
        let records = section.chunks(RECORD_BYTES);
        let searches: Vec<Self> =
            records.map(Self::decode_record).collect::<Result<_, _>>().map_err(invalid)?;
        if searches.is_sorted_by(|a, b| a.order(b).is_lt()) {
            Ok(searches)
        } else {
            Err(invalid("its searches are not in order, or one is repeated".into()))
        }
    }

    fn decode_record(record: &[u8]) -> Result<Self, String> {
        let record: TunedRecord =
            bytemuck::try_pod_read_unaligned(record).map_err(|_| "its last record is cut short")?;
        let TunedRecord { target, recall, queries_per_second, k, batch, beam_width, .. } = record;
        let TunedRecord { warps, expansions, visited_buckets, fingerprint, .. } = record;
        let device = record.device.split(|&byte| byte == 0).next().unwrap_or_default();
        let device = std::str::from_utf8(device).map_err(|_| "a device name is not UTF-8")?;
        if k == 0 || batch == 0 || beam_width == 0 {
            return Err(format!("beam width {beam_width} for k {k} in batches of {batch}"));
        }
        if !(queries_per_second >= 0.0 && queries_per_second.is_finite()) {
            return Err(format!("{queries_per_second} queries per second"));
        }
        if let Some(share) = [target, recall].into_iter().find(|share| !(0.0..=1.0).contains(share)) {
            return Err(format!("recall {share} is not between 0 and 1"));
        }
        Ok(Self {
            device: device.to_owned(),
            k: k as usize,
            target,
            batch: batch as usize,
            beam_width: beam_width as usize,
            launch: (warps > 0).then_some(LaunchParams { warps, expansions, visited_buckets }),
            recall,
            queries_per_second,
            fingerprint,
        })
    }

    fn encode(&self) -> TunedRecord {
        let none = LaunchParams { warps: 0, expansions: 0, visited_buckets: 0 };
        let LaunchParams { warps, expansions, visited_buckets } = self.launch.unwrap_or(none);
        let [k, batch, beam_width] =
            [self.k, self.batch, self.beam_width].map(|number| u32::try_from(number).unwrap_or(u32::MAX));
        let mut device = [0; DEVICE_BYTES];
        let name = self.stored_name().as_bytes();
        device[..name.len()].copy_from_slice(name);
        TunedRecord {
            device,
            target: self.target,
            recall: self.recall,
            queries_per_second: self.queries_per_second,
            k,
            batch,
            beam_width,
            warps,
            expansions,
            visited_buckets,
            fingerprint: self.fingerprint,
            reserved: [0; 3],
        }
    }

    /// The prefix of the name that a file stores.
    fn stored_name(&self) -> &str {
        &self.device[..self.device.floor_char_boundary(DEVICE_BYTES)]
    }

    fn order(&self, other: &Self) -> Ordering {
        let shape = |search: &Self| (search.k, search.batch);
        self.device
            .cmp(&other.device)
            .then(self.target.total_cmp(&other.target))
            .then(shape(self).cmp(&shape(other)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jasper_core::{BuildParams, ElementKind, Metric};

    fn search(device: &str, batch: usize, launch: Option<LaunchParams>) -> TunedSearch {
        TunedSearch {
            device: device.into(),
            k: 10,
            target: 0.9,
            batch,
            beam_width: 16,
            launch,
            recall: 0.91,
            queries_per_second: 1e6,
            fingerprint: 7,
        }
    }

    #[test]
    fn searches_are_stored_in_order_and_replaced() {
        let mut graph = Graph::new(ElementKind::U8, Metric::L2, 3, BuildParams::default()).unwrap();
        let launch = LaunchParams { warps: 8, expansions: 4, visited_buckets: 1024 };
        let [team, alone] = [1, 10_000].map(|batch| search("NVIDIA H200", batch, Some(launch)));
        let (cpu, long) = (search("a processor", 10_000, None), search(&"é".repeat(40), 1, None));
        let better = TunedSearch { beam_width: 20, ..alone.clone() };
        for search in [&cpu, &long, &alone, &team, &better] {
            search.store(&mut graph);
        }
        let cut = TunedSearch { device: "é".repeat(32), ..long };
        assert_eq!(TunedSearch::stored(&graph).unwrap(), [team, better, cpu, cut]);
    }

    #[test]
    fn a_tuned_search_that_cannot_be_is_found() {
        let mut graph = Graph::new(ElementKind::U8, Metric::L2, 3, BuildParams::default()).unwrap();
        [1, 100].into_iter().for_each(|batch| search("a device", batch, None).store(&mut graph));
        let nan = f64::NAN.to_le_bytes();
        let cases: [(usize, &[u8], &str); 9] = [
            (0, &[0xFF], "not UTF-8"),
            (64, &nan, "recall NaN is not between 0 and 1"),
            (72, &2_f64.to_le_bytes(), "recall 2 is not"),
            (80, &nan, "NaN queries per second"),
            (88, &[0], "for k 0"),
            (96, &[0], "beam width 0 for k"),
            (92, &[0], "in batches of 0"),
            (128, b"A", "not in order"),
            (128 + 92, &[1], "one is repeated"),
        ];
        for (at, lie, expected) in cases {
            let mut section = graph.encoded_tuned_searches().to_vec();
            section[at..at + lie.len()].copy_from_slice(lie);
            let fault = TunedSearch::decode(&section).unwrap_err();
            assert!(fault.to_string().contains(expected), "{at}: {fault}");
        }
    }
}
