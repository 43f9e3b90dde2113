//! Distances of candidates by SQ8.

use jasper_core::{Metric, synthetic};
use rand::RngExt;

use super::ROW_BYTES;
use super::vertices::Vertices;
use crate::prune::{CandidateArgs, Rescore, RescoreArgs};
use crate::{Buffer, Stream};

/// Any number of candidates of several vertices, with long rows more than a block computes at once. Other places stay as
/// they are.
///
/// # Panics
/// If an entry differs, or the stream fails.
pub fn rescored_candidates_agree_with_the_reference(stream: &impl Stream, seed: u64) {
    let mut rng = synthetic::rng(seed);
    for (metric, row_bytes) in [Metric::L2, Metric::InnerProduct]
        .into_iter()
        .flat_map(|metric| ROW_BYTES.map(|bytes| (metric, bytes)))
    {
        let vertices = Vertices::<i8>::new(&mut rng, metric, row_bytes);
        let stride = vertices.len();
        let batch: Vec<u32> = (0..stride as u32).step_by(7).collect();
        let unused = 0x1234_5678_9abc_def1;
        let (mut found, mut expected) =
            (vec![unused; batch.len() * stride], vec![unused; batch.len() * stride]);
        let mut costs = Vec::new();
        for (list, &vertex) in batch.iter().enumerate() {
            let candidates = vertices.some(&mut rng, stride);
            costs.extend([candidates.len() as u32, 0]);
            for (place, &candidate) in candidates.iter().enumerate() {
                let exact = vertices.neighbor(vertex, candidate).to_bits();
                found[list * stride + place] = exact & u64::from(u32::MAX) | rng.random::<u64>() << 32;
                expected[list * stride + place] = exact;
            }
        }
        let mut device = vertices.upload(stream);
        let [on_device, costs] = [&batch, &costs].map(|values| stream.upload(values).unwrap());
        let mut entries = stream.upload(&found).unwrap();
        let prune = vertices.args(&mut device);
        let args = RescoreArgs {
            graph: prune.graph,
            form: prune.form,
            candidates: CandidateArgs {
                new_vertices: on_device.input(),
                entries: entries.input(),
                costs: costs.input(),
                vertices_len: batch.len() as u32,
                stride: stride as u32,
            },
            entries: entries.output(),
        };
        let kernel = Rescore::for_sq8(vertices.form.op(), vertices.row_bytes());
        // SAFETY: the buffers have the shapes that the arguments say, and live until the download has waited.
        unsafe { stream.launch(&kernel, args).unwrap() };
        assert_eq!(stream.download(&entries).unwrap(), expected, "{metric}, {row_bytes} bytes");
    }
}
