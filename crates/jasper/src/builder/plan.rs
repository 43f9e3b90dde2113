//! Where a build runs, and the memory that it takes.

use jasper_core::{DeviceError, ElementKind};
use jasper_graph::KeyMap;
use jasper_quant::Quantization;
use jasper_vamana::{
    BuildSpec, Bytes, MemoryPlan, MemorySpace, PlanError, SCRATCH, SKETCHES, free_host_memory,
    training_bytes, widest_build_beam,
};

use super::{IndexBuilder, QuantizeStep};
use crate::QuantizeMode;
use crate::auto_quantize::{QUANTIZATION_TRIAL_BYTES, QUANTIZATION_TRIAL_ROW_BYTES};
use crate::backend::{BuildDevice, first_available, plan_build};
use crate::error::Result;
#[cfg(doc)]
use crate::{Device, ErrorKind, Index};

impl IndexBuilder<'_> {
    /// Peak memory of a build of `count` vectors of `dimension` coordinates, on the host and on the device, part by
    /// part. A single [CUDA device](Device::cuda) need not exist; of several, all must. [`Device::AUTO`] means the device
    /// on which [`Self::build`] would build now.
    ///
    /// The move to a named device comes after the build and is not in the plan. It needs the memory that
    /// [`Index::to_device`] needs; the error of the build [has the index](crate::Error::into_index) if there is too little.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::InvalidParameter`] if a parameter is out of bounds.
    pub fn memory_plan(&self, element: ElementKind, count: usize, dimension: usize) -> Result<MemoryPlan> {
        let shards = self.shard_count()?;
        if shards > 1 {
            return self.plan_shards(element, count, dimension, shards);
        }
        let spec = self.spec(element, count, dimension)?;
        let exact_linking = self.links_exactly(spec.element);
        match self.device.cuda_ordinals()[..] {
            [ordinal] => self.plan(&spec, exact_linking, Some(ordinal)),
            _ => self.choose_device(&spec, exact_linking).map(|plan| plan.memory),
        }
    }

    /// Checks the [`Self::memory_plan`] against the free memory of the host and the device, as [`Self::build`] does
    /// first. Whether the index will fit on a named device is not checked.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::OutOfMemory`] if there is not enough memory, or as [`Self::memory_plan`].
    pub fn check_memory(&self, element: ElementKind, count: usize, dimension: usize) -> Result<MemoryPlan> {
        match self.shard_count()? {
            1 => Ok(self.choose(&self.spec(element, count, dimension)?)?.memory),
            shards => self.check_shards(element, count, dimension, shards),
        }
    }
}

impl IndexBuilder<'_> {
    /// Whether edges are chosen by exact distances, without a trial of SQ8 vectors.
    pub(super) fn links_exactly(&self, element: ElementKind) -> bool {
        // There is nothing to quantize.
        self.exact_linking || element.is_integer()
    }

    /// Where a build runs, and whether by exact distances, because there is no memory for SQ8 vectors.
    pub(super) fn choose(&self, spec: &BuildSpec) -> Result<BuildPlan> {
        let choose = |exact_linking| {
            let plan = self.choose_device(spec, exact_linking)?;
            check_free(&plan.memory, plan.cuda.as_ref()).map(|()| plan)
        };
        match choose(self.links_exactly(spec.element)) {
            Err(error) if error.is::<PlanError>() && !self.links_exactly(spec.element) => choose(true),
            chosen => chosen,
        }
    }

    /// The plan of a build on the device that the options name or, if they leave it open, on the first with room.
    pub(super) fn choose_device(&self, spec: &BuildSpec, exact_linking: bool) -> Result<BuildPlan> {
        let cuda = match self.device.find()? {
            Some(ordinals) => ordinals.first().copied().map(BuildDevice::open).transpose()?,
            None => first_available(|ordinal| {
                let cuda = BuildDevice::open(ordinal)?;
                // Without a plan, the parameters are out of range, for this device or for the CPU as well; the plan
                // below reports the latter.
                let Ok(plan) = self.plan(spec, exact_linking, Some(ordinal)) else { return Ok(None) };
                match check_free(&plan, Some(&cuda)) {
                    Ok(()) => Ok(Some(cuda)),
                    Err(error) => error.downcast::<DeviceError>().map_or(Ok(None), Err),
                }
            })?,
        };
        let memory = self.plan(spec, exact_linking, cuda.as_ref().map(BuildDevice::ordinal))?;
        Ok(BuildPlan { exact_linking, cuda, memory })
    }

    /// Memory of a build on a CUDA device, or on the CPU.
    pub(super) fn plan(
        &self,
        spec: &BuildSpec,
        exact_linking: bool,
        cuda: Option<usize>,
    ) -> Result<MemoryPlan> {
        let candidates = self.quantize.as_ref().map_or(&[][..], QuantizeStep::candidates);
        let checked = candidates.iter().try_for_each(|quantization| quantization.check());
        checked?;
        let widest = widest_build_beam(&spec.params, spec.rows);
        let spec = &BuildSpec { params: spec.params.with_effort(widest, spec.params.alpha()), ..*spec };
        let plan = match cuda {
            Some(ordinal) => plan_build(spec, exact_linking, ordinal)?,
            None if exact_linking => spec.plan_on_host(),
            None => spec.plan_sq8_on_host(),
        };
        // Attributes are assigned by key.
        let plan = if self.attributes.is_some() && self.keys.is_some_and(|keys| !keys.is_sorted()) {
            plan.part(MemorySpace::Host, "key table", KeyMap::table_bytes(spec.rows) as u64)
        } else {
            plan
        };
        if candidates.is_empty() {
            return Ok(plan);
        }
        let codes = candidates.iter().map(|candidate| candidate.bytes(spec.dimension) as u64).max();
        let codes = spec.rows as u64 * codes.unwrap_or(0);
        let training =
            |&candidate: &Quantization| training_bytes(candidate, spec.rows, spec.dimension) as u64;
        let training = candidates.iter().map(training).max().unwrap_or(0);
        // Training comes after linking and before there are codes.
        let plan = plan.at_least(MemorySpace::Host, SCRATCH, training.saturating_sub(codes));
        let trial = match self.quantize {
            Some(QuantizeStep::Mode(QuantizeMode::Auto(_))) => {
                QUANTIZATION_TRIAL_BYTES + spec.rows as u64 * QUANTIZATION_TRIAL_ROW_BYTES
            }
            _ => 0,
        };
        let plan = plan.part(MemorySpace::Host, "quantization trial", trial);
        let plan = plan.part(MemorySpace::Host, "codes", codes);
        // A trial keeps those of all candidates.
        let quantizers = candidates.iter().map(|candidate| candidate.quantizer_bytes(spec.dimension) as u64);
        Ok(plan.part(MemorySpace::Host, "quantizer", quantizers.sum()))
    }
}

/// Checks that there is memory for a build, if necessary without sketches.
fn check_free(plan: &MemoryPlan, cuda: Option<&BuildDevice>) -> Result<()> {
    let free = match cuda {
        Some(cuda) => cuda.free_memory()?,
        None => Bytes { host: free_host_memory(), device: 0 },
    };
    Ok(plan.clone().without(SKETCHES).check(free)?)
}

/// How a build is executed.
pub(super) struct BuildPlan {
    /// Whether edges are chosen by exact distances, without a trial of SQ8 vectors.
    pub(super) exact_linking: bool,
    /// The CUDA device, or `None` for the CPU.
    pub(super) cuda: Option<BuildDevice>,
    pub(super) memory: MemoryPlan,
}
