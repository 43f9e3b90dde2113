//! The hits of a query, from the results of the device.

use std::iter;

use gpu_kernels::search::DeviceHit;
use jasper_core::{Metric, NO_KEY, Slot};
use jasper_graph::Graph;
use jasper_vamana::Hit;

/// Converts a result of a [`DeviceBatch`](crate::DeviceBatch). [`NO_HIT`](gpu_kernels::search::NO_HIT) becomes
/// [`Hit::NONE`]. The distance is that of the device, which rounding may take beyond the [bounds](Metric::clamp) of the
/// metric.
pub fn hit_from_device(DeviceHit { key, distance, .. }: DeviceHit) -> Hit {
    Hit { key, distance }
}

/// The vertices that were found, each under its first key.
pub(super) fn first_keys(metric: Metric, results: &[DeviceHit]) -> impl Iterator<Item = Hit> + '_ {
    let found = results.iter().take_while(|hit| hit.key != NO_KEY);
    found.map(move |hit| Hit { key: hit.key, distance: metric.clamp(hit.distance) })
}

/// The vertices that were found, each under all of its keys.
pub(super) fn all_keys<'a>(graph: &'a Graph, results: &'a [DeviceHit]) -> impl Iterator<Item = Hit> + 'a {
    first_keys(graph.metric(), results).zip(results).flat_map(|(hit, found)| {
        let further = graph.keys().further_keys(Slot::new(found.slot));
        iter::once(hit).chain(further.map(move |key| Hit { key, ..hit }))
    })
}
