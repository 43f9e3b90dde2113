//! Building an index of several shards.

use std::io;
use std::sync::Arc;

use jasper_core::{DeviceError, ElementKind, Key, ProgressFn, Vectors};
use jasper_data::parallel;
use jasper_graph::{Graph, VectorError};
use jasper_vamana::{Bytes, ChangeHooks, CpuExecutor, MemoryPlan, SKETCHES, UpdateError, free_host_memory};

use super::{BuildDevice, BuildError, BuildReport, IndexBuilder, QuantizeStep};
use crate::backend::{MAX_SHARDS, RowsByShard, ShardVectors, Vote, at_once, in_memory};
use crate::error::{Error, Result};
use crate::inner::IndexInner;
use crate::{Device, ErrorKind, QuantizeMode};

/// The graph of a shard.
type Built = (Graph, BuildReport);

impl IndexBuilder<'_> {
    /// Number of shards.
    pub(super) fn shard_count(&self) -> Result<usize> {
        let shards = match self.shards {
            Some(shards) => shards,
            None if self.device.is_sharded => self.build_devices()?.len(),
            None => 1,
        };
        let unsuitable = [
            (self.checkpoints.is_some(), "checkpoint"),
            (
                matches!(self.quantize, Some(QuantizeStep::Mode(QuantizeMode::Auto(_)))),
                "an automatic quantization",
            ),
        ];
        match unsuitable.into_iter().find(|&(is_set, _)| is_set) {
            _ if !(1..=MAX_SHARDS).contains(&shards) => Err(BuildError::Shards(shards).into()),
            Some((_, option)) if shards > 1 => Err(BuildError::Sharded(option).into()),
            _ => Ok(shards),
        }
    }

    /// The devices that build shards.
    fn build_devices(&self) -> Result<Vec<Device>, DeviceError> {
        Ok(match self.device.find()? {
            None => vec![Device::AUTO],
            Some(ordinals) if ordinals.is_empty() => vec![Device::CPU],
            Some(ordinals) => ordinals.into_iter().map(Device::cuda).collect(),
        })
    }

    /// The memory of a build of shards, of all devices together.
    pub(super) fn plan_shards(
        &self,
        element: ElementKind,
        count: usize,
        dimension: usize,
        shards: usize,
    ) -> Result<MemoryPlan> {
        let rows = (0..shards).map(|shard| (count + shard) / shards);
        let devices = self.build_devices()?.into_iter().cycle();
        let plans = rows.zip(devices).map(|(rows, device)| {
            self.clone().device(device).unsharded().memory_plan(element, rows, dimension)
        });
        plans.reduce(|sum, plan| Ok(sum?.plus(&plan?))).expect("there is a shard")
    }

    /// Checks that the host has memory for all shards, and each device for its share, before anything is read.
    pub(super) fn check_shards(
        &self,
        element: ElementKind,
        count: usize,
        dimension: usize,
        shards: usize,
    ) -> Result<MemoryPlan> {
        let devices = self.build_devices()?;
        let plan = self.plan_shards(element, count, dimension, shards)?;
        let host = Bytes { host: free_host_memory(), device: u64::MAX };
        plan.clone().without(SKETCHES).check(host)?;
        // Shards of one device are built one after another, and hash to shares that differ by little.
        let check = |device: Device| {
            if let [ordinal] = device.cuda_ordinals()[..] {
                let share = self.clone().device(device).unsharded();
                let share = share.memory_plan(element, count.div_ceil(shards), dimension)?;
                share.check(Bytes { host: u64::MAX, ..BuildDevice::open(ordinal)?.free_memory()? })?;
            }
            Ok(())
        };
        // At the same time, because the first call opens a device.
        let mut checks = devices.into_iter().map(|device| move || check(device));
        let first = checks.next().expect("there is a device");
        let checked = at_once(first, checks).map_err(refused_thread)?;
        checked.into_iter().collect::<Result<()>>()?;
        Ok(plan)
    }

    fn unsharded(self) -> Self {
        Self { shards: Some(1), ..self }
    }

    /// Builds all shards: each device builds one after another, and all devices at the same time.
    pub(super) fn build_shards(
        &self,
        executor: &Arc<CpuExecutor>,
        vectors: Vectors<'_>,
        shards: usize,
        progress: &mut ProgressFn<'_>,
    ) -> Result<(IndexInner, BuildReport)> {
        self.check_shards(vectors.element(), vectors.len(), vectors.dimension(), shards)?;
        let given = self.keys.map_or(vectors.len(), <[Key]>::len);
        if given != vectors.len() {
            return Err(UpdateError::KeyCount { keys: given, vectors: vectors.len() }.into());
        }
        let mut buffer = None;
        let all = vectors.concurrent().map_or_else(|| in_memory(vectors, &mut buffer), Ok)?;
        let pool = executor.pool();
        let (element, len) = (vectors.element(), vectors.len());
        let rows = parallel::install(pool, || RowsByShard::new(self.keys, len, shards));
        let devices = self.build_devices()?;
        let build = |shard: usize, progress: &mut ProgressFn<'_>| {
            let vectors = ShardVectors::new(&all, &rows, shard);
            let keys = parallel::install(pool, || rows.keys(shard));
            let builder = IndexBuilder {
                keys: Some(&keys),
                attributes: None,
                ..self.clone().device(devices[shard % devices.len()])
            };
            let of_shard = Vectors::of_element(element, &vectors);
            let built = builder.build_graph(executor, of_shard, progress);
            built.map_err(|error| match error.downcast::<VectorError>() {
                Ok(error) => error.map_row(|row| vectors.row_in_source(row)).into(),
                Err(error) => error,
            })
        };
        let device_count = devices.len().min(shards);
        let build_all = |device: usize, hooks: ChangeHooks<'_>| {
            let shards = (device..shards).step_by(device_count);
            shards.map(|shard| build(shard, hooks.progress)).collect::<Result<Vec<_>, _>>()
        };
        let results = Vote::make_all(device_count, true, ChangeHooks::new(progress), build_all);
        let results: Vec<Result<Vec<Built>>> = results.map_err(refused_thread)?;
        // One device's error cancels the others.
        let is_cancelled = |error: &Error| error.kind() == ErrorKind::Cancelled;
        let (mut built, mut failed) = (Vec::new(), None);
        for result in results {
            match result {
                Ok(shards) => built.push(shards.into_iter()),
                Err(error) if failed.as_ref().is_none_or(is_cancelled) => failed = Some(error),
                Err(_) => {}
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        let in_order = (0..shards).filter_map(|shard| built[shard % device_count].next());
        let (graphs, reports): (Vec<_>, Vec<_>) = in_order.unzip();
        let report = reports.into_iter().reduce(BuildReport::merge).expect("there is a shard");
        Ok((IndexInner::from_shards(graphs, Arc::clone(executor), self.exact_linking), report))
    }
}

fn refused_thread(error: io::Error) -> Error {
    UpdateError::Thread(error).into()
}
