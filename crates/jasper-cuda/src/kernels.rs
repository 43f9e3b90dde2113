//! The embedded kernels, each loaded into the driver when it is first launched.
//!
//! There are kernels for every element, metric and width, and the driver takes up to a second to compile one. Each is
//! therefore a module of its own: a kernel that is not used costs nothing, and a compiled kernel stays in the driver's
//! cache when others change.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use cust::sys::CUfunction;
use gpu_kernels::Launch;
use jasper_ptx::Archive;

use crate::Context;
use crate::error::{Error, Result};
use crate::module::LoadedModule;

/// The kernels that were launched in a context.
#[derive(Debug, Default)]
pub(crate) struct Kernels(Mutex<HashMap<Box<str>, Arc<Kernel>>>);

/// A kernel's module, once it is loaded. Loading one blocks other callers of the same kernel only.
type Kernel = Mutex<Option<LoadedModule>>;

impl Kernels {
    /// The kernel `entry`, ready for `launch`.
    pub(crate) fn prepare(&self, context: &Context, entry: &str, launch: Launch) -> Result<CUfunction> {
        self.with(context, entry, |kernel| kernel.prepare(context, entry, launch))?
    }

    /// Loads the kernel `entry` unless it is loaded.
    pub(crate) fn load(&self, context: &Context, entry: &str) -> Result<()> {
        self.with(context, entry, |_| ())
    }

    fn with<R>(&self, context: &Context, entry: &str, read: impl FnOnce(&LoadedModule) -> R) -> Result<R> {
        let kernel = {
            let mut kernels = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match kernels.get(entry) {
                Some(kernel) => kernel.clone(),
                None => kernels.entry(entry.into()).or_default().clone(),
            }
        };
        let mut kernel = kernel.lock().unwrap_or_else(PoisonError::into_inner);
        let kernel = match &mut *kernel {
            Some(kernel) => kernel,
            none => {
                let ptx = Archive::read(gpu_kernels::PTX).and_then(|archive| archive.kernel(entry));
                let ptx = ptx.map_err(|_| Error::UnknownKernel { entry: entry.to_owned() })?;
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

    /// A declaration between kernels, or a function that they call, would be missing from other kernels' modules.
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
