//! The embedded kernels, each loaded into the driver when it is first launched.
//!
//! There are kernels for every element, metric and beam width, and JIT compilation of one takes up to a second. Each
//! kernel is therefore a module of its own: unused kernels cost nothing, and a compiled kernel stays in the driver's
//! cache when others change. Kernels that read vectors are compiled once per length of rows.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use cust::sys::CUfunction;
use gpu_kernels::{Kernel, LaunchConfig, Specialization};
use jasper_ptx::{Archive, specialize};

use crate::Context;
use crate::context::lock;
use crate::error::{ErrorKind, Result};
use crate::module::LoadedModule;

/// The kernels that were launched in a context.
#[derive(Debug, Default)]
pub(crate) struct Kernels(Mutex<HashMap<KernelId, Arc<LoadedKernel>>>);

/// Identifies a loaded kernel: its entry point, and the constants that it is specialized for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct KernelId {
    pub(crate) entry_point: Cow<'static, str>,
    specialization: Option<Specialization>,
}

impl KernelId {
    pub(crate) fn of(kernel: &impl Kernel) -> Self {
        Self { entry_point: kernel.entry_point(), specialization: kernel.specialization() }
    }

    /// Its PTX, for a device of a compute capability.
    fn ptx(&self, capability: (u32, u32)) -> Result<String, ErrorKind> {
        let ptx = Archive::read(gpu_kernels::PTX).and_then(|archive| archive.kernel(&self.entry_point));
        let ptx =
            ptx.map_err(|_| ErrorKind::UnknownKernel { entry: self.entry_point.clone().into_owned() })?;
        Ok(match self.specialization {
            Some(how) => specialize(&ptx, &how.constants, how.min_blocks_on(capability)),
            None => ptx,
        })
    }
}

/// A kernel's module, once it is loaded. Loading it blocks only other callers of the same kernel.
type LoadedKernel = Mutex<Option<LoadedModule>>;

impl Kernels {
    /// A kernel, ready for `launch`.
    pub(crate) fn prepare(
        &self,
        context: &Context,
        id: &KernelId,
        launch: LaunchConfig,
    ) -> Result<CUfunction> {
        self.with(context, id, |kernel| kernel.prepare(context, &id.entry_point, launch))?
    }

    /// Loads a kernel unless it is loaded.
    pub(crate) fn load(&self, context: &Context, id: &KernelId) -> Result<()> {
        self.with(context, id, |_| ())
    }

    fn with<R>(&self, context: &Context, id: &KernelId, read: impl FnOnce(&LoadedModule) -> R) -> Result<R> {
        let kernel = {
            let mut kernels = lock(&self.0);
            match kernels.get(id) {
                Some(kernel) => kernel.clone(),
                None => kernels.entry(id.clone()).or_default().clone(),
            }
        };
        let mut kernel = lock(&kernel);
        let kernel = match &mut *kernel {
            Some(kernel) => kernel,
            none => {
                let ptx = id.ptx(context.device().compute_capability).map_err(|kind| context.fail(kind))?;
                none.insert(LoadedModule::new(context, &ptx)?)
            }
        };
        Ok(read(kernel))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: &str = "\n.visible .entry ";

    /// Declarations between kernels, and functions that several kernels call, would be missing from the modules of
    /// single kernels.
    #[test]
    fn every_kernel_is_a_module_of_its_own() {
        let archive = Archive::read(gpu_kernels::PTX).unwrap();
        assert!(archive.entries().count() > 100);
        for entry in archive.entries() {
            let ptx = archive.kernel(entry).unwrap();
            let (head, kernel) = ptx.split_once(ENTRY).unwrap();
            assert!(head.contains(".version ") && head.contains(".target "), "{entry}");
            assert!(kernel.starts_with(&format!("{entry}(")) && !kernel.contains(ENTRY), "{entry}");
            let (_, rest) = kernel.split_once("\n}").unwrap();
            assert_eq!(rest.trim(), "", "{entry}");
        }
    }
}
