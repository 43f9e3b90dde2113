//! The embedded kernels, each loaded into the driver when it is first launched.
//!
//! There are kernels for every element, metric and beam width, and JIT compilation of one takes up to a second. Each
//! kernel is therefore a module of its own: unused kernels cost nothing, and a compiled kernel stays in the driver's
//! cache when others change. Kernels that read vectors are compiled once per length of rows.

use std::any::{Any, TypeId};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, RwLock};

use gpu_kernels::{Kernel, Specialization, max_blocks};
use jasper_core::sync::{self, lock};
use jasper_ptx::{Archive, cap_blocks, specialize};

use crate::Context;
use crate::error::{ErrorKind, Result};
use crate::module::{Function, LoadedModule};

/// The kernels that were loaded in a context.
#[derive(Debug, Default)]
pub(crate) struct Kernels {
    /// The functions of kernels that were launched: a `HashMap<K, Arc<Function>>` for each type `K` of kernels.
    launched: RwLock<HashMap<TypeId, Box<dyn Any + Send + Sync>>>,
    /// The modules, which stay loaded as long as the context.
    loaded: Mutex<HashMap<KernelId, Arc<LoadedKernel>>>,
}

/// Identifies a loaded kernel: its entry point, and the constants that it is specialized for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct KernelId {
    pub(crate) entry_point: Cow<'static, str>,
    specialization: Option<Specialization>,
}

impl KernelId {
    pub(crate) fn of(kernel: &impl Kernel) -> Self {
        Self { entry_point: kernel.entry().name.into(), specialization: kernel.specialization() }
    }

    /// Its PTX, for a device of a compute capability.
    fn ptx(&self, capability: (u32, u32)) -> Result<String, ErrorKind> {
        let ptx = Archive::read(gpu_kernels::PTX).and_then(|archive| archive.kernel(&self.entry_point));
        let ptx =
            ptx.map_err(|_| ErrorKind::UnknownKernel { entry: self.entry_point.clone().into_owned() })?;
        Ok(match self.specialization {
            Some(how) => specialize(&ptx, &how.constants, how.min_blocks_on(capability)),
            None => cap_blocks(&ptx, max_blocks(capability)),
        })
    }
}

/// The functions of the kernels of one type.
type Functions<K> = HashMap<K, Arc<Function>>;

/// A kernel's module, once it is loaded. Loading it blocks only other callers of the same kernel.
type LoadedKernel = Mutex<Option<LoadedModule>>;

impl Kernels {
    /// The function of a kernel. One that was launched before costs a shared lock and two look-ups of small keys.
    pub(crate) fn function<K: Kernel>(&self, context: &Context, kernel: &K) -> Result<Arc<Function>> {
        if let Some(function) = self.launched_before(kernel) {
            return Ok(function);
        }
        let id = KernelId::of(kernel);
        let function = self.with(context, &id, |module| module.function(context, &id.entry_point))??;
        let mut launched = sync::write(&self.launched);
        let of_type = launched.entry(TypeId::of::<K>()).or_insert_with(|| Box::new(Functions::<K>::new()));
        let of_type = of_type.downcast_mut::<Functions<K>>().expect("the key is the type of the kernels");
        of_type.insert(*kernel, Arc::clone(&function));
        Ok(function)
    }

    fn launched_before<K: Kernel>(&self, kernel: &K) -> Option<Arc<Function>> {
        let launched = sync::read(&self.launched);
        let of_type = launched.get(&TypeId::of::<K>())?.downcast_ref::<Functions<K>>()?;
        of_type.get(kernel).cloned()
    }

    /// Whether a kernel is loaded; also false while another thread loads it.
    pub(crate) fn is_loaded(&self, id: &KernelId) -> bool {
        let kernel = lock(&self.loaded).get(id).cloned();
        kernel.is_some_and(|kernel| kernel.try_lock().is_ok_and(|kernel| kernel.is_some()))
    }

    /// Loads a kernel unless it is loaded.
    pub(crate) fn load(&self, context: &Context, id: &KernelId) -> Result<()> {
        // The driver may copy the code of a module to the device only when its function is looked up.
        self.with(context, id, |module| module.function(context, &id.entry_point))?.map(drop)
    }

    fn with<R>(&self, context: &Context, id: &KernelId, read: impl FnOnce(&LoadedModule) -> R) -> Result<R> {
        let kernel = {
            let mut kernels = lock(&self.loaded);
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
    /// The assembler would ignore the launch bounds.
    #[test]
    fn no_kernel_asks_for_more_blocks_than_a_multiprocessor_has() {
        let archive = Archive::read(gpu_kernels::PTX).unwrap();
        let asks_for_more = |entry: &str, capability| {
            let id = KernelId { entry_point: entry.to_owned().into(), specialization: None };
            let ptx = id.ptx(capability).unwrap();
            let blocks = ptx.lines().find_map(|line| line.strip_prefix(".minnctapersm "));
            blocks.is_some_and(|blocks| blocks.parse::<u32>().unwrap() > max_blocks(capability))
        };
        let specialized = gpu_kernels::specializations(128);
        for capability in [(8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0)] {
            for entry in archive.entries() {
                assert!(!asks_for_more(entry, capability), "{entry} on {capability:?}");
            }
            for (entry, how) in &specialized {
                assert!(how.min_blocks_on(capability) <= max_blocks(capability), "{entry} on {capability:?}");
            }
        }
        // On compute capability 9.0 every kernel is loaded as it is committed.
        for entry in archive.entries() {
            assert_eq!(
                cap_blocks(&archive.kernel(entry).unwrap(), max_blocks((9, 0))),
                archive.kernel(entry).unwrap()
            );
        }
    }
}
