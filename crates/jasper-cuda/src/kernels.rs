//! The embedded kernels, each taken to the driver when it is first launched.
//!
//! The text holds kernels for every element, metric and width, and the driver takes a good part of a second to compile
//! one. So it is given each by itself: what is not used costs nothing, and a kernel stays in the driver's cache when
//! others change.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use cust::sys::CUfunction;
use gpu_kernels::Launch;

use crate::Context;
use crate::error::{Error, Result};
use crate::module::Loaded;

/// The kernels that were launched in a context: each a module of its own.
#[derive(Debug, Default)]
pub(crate) struct Kernels {
    loaded: Mutex<HashMap<Box<str>, Arc<Kernel>>>,
    /// Texts beside the embedded one.
    more: Mutex<Vec<&'static str>>,
}

/// One of them, once it is loaded. Who loads it keeps others from that kernel alone.
type Kernel = Mutex<Option<Loaded>>;

impl Kernels {
    /// Looks kernels up in `ptx` too.
    pub(crate) fn add(&self, ptx: &'static str) {
        let mut more = self.more.lock().unwrap_or_else(PoisonError::into_inner);
        if !more.contains(&ptx) {
            more.push(ptx);
        }
    }

    /// The text of the kernel `entry`.
    fn find(&self, entry: &str) -> Option<String> {
        let more = self.more.lock().unwrap_or_else(PoisonError::into_inner);
        std::iter::once(&gpu_kernels::PTX).chain(&*more).find_map(|ptx| alone(ptx, entry))
    }

    /// The kernel `entry`, ready for `launch`.
    pub(crate) fn prepare(&self, context: &Context, entry: &str, launch: Launch) -> Result<CUfunction> {
        self.with(context, entry, |kernel| kernel.prepare(context, entry, launch))?
    }

    /// Loads the kernel `entry`, if that is not done.
    pub(crate) fn load(&self, context: &Context, entry: &str) -> Result<()> {
        self.with(context, entry, |_| ())
    }

    fn with<R>(&self, context: &Context, entry: &str, work: impl FnOnce(&Loaded) -> R) -> Result<R> {
        let kernel = {
            let mut kernels = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
            match kernels.get(entry) {
                Some(kernel) => kernel.clone(),
                None => kernels.entry(entry.into()).or_default().clone(),
            }
        };
        let mut kernel = kernel.lock().unwrap_or_else(PoisonError::into_inner);
        let kernel = match &mut *kernel {
            Some(kernel) => kernel,
            none => {
                let ptx = self.find(entry).ok_or_else(|| Error::UnknownKernel { entry: entry.to_owned() })?;
                none.insert(Loaded::new(context, &ptx)?)
            }
        };
        Ok(work(kernel))
    }
}

/// What a kernel's text begins with; its name and a parenthesis follow.
const ENTRY: &str = "\n.visible .entry ";
/// What it ends with.
const END: &str = "\n}\n";

/// The text of one kernel, behind the head that all share, without comments.
fn alone(ptx: &str, entry: &str) -> Option<String> {
    let kernel = &ptx[ptx.find(&format!("{ENTRY}{entry}("))?..];
    let kernel = &kernel[..kernel.find(END)? + END.len()];
    let head = ptx[..ptx.find(ENTRY)?].lines().filter(|line| !line.starts_with("//"));
    Some(head.chain(kernel.lines()).flat_map(|line| [line, "\n"]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(ptx: &str) -> Vec<&str> {
        ptx.split(ENTRY).skip(1).map(|kernel| kernel.split('(').next().unwrap()).collect()
    }

    #[test]
    fn every_kernel_stands_alone() {
        let entries = entries(gpu_kernels::PTX);
        assert!(!entries.is_empty());
        for entry in &entries {
            let text = alone(gpu_kernels::PTX, entry).unwrap();
            assert_eq!(self::entries(&text), [*entry]);
            assert!(
                text.contains("\n.version ") && text.contains("\n.target ") && text.ends_with(END),
                "{entry}"
            );
            assert!(!text.contains("// source"), "{entry}");
        }
        assert_eq!(alone(gpu_kernels::PTX, "no_such_kernel"), None);
    }

    #[test]
    fn kernels_of_other_texts_are_found_too() {
        let kernels = Kernels::default();
        let text = ".version 8.0\n.visible .entry one()\n{\n\tone;\n}\n";
        assert_eq!(kernels.find("one"), None);
        kernels.add(text);
        kernels.add(text);
        assert_eq!(
            kernels.find("one").as_deref(),
            Some(".version 8.0\n\n.visible .entry one()\n{\n\tone;\n}\n")
        );
        assert_eq!(kernels.more.lock().unwrap().len(), 1);
        assert!(kernels.find("publish_rows").is_some());
    }

    /// A declaration between kernels, or a function that they call, would be left out.
    #[test]
    fn nothing_lies_between_kernels() {
        let kernels = gpu_kernels::PTX.split(ENTRY).skip(1);
        for kernel in kernels {
            let (_, behind) = kernel.split_once(END.trim_end()).unwrap();
            assert!(behind.lines().all(|line| line.trim().is_empty() || line.starts_with("//")), "{behind}");
        }
    }

    #[test]
    fn a_name_is_not_the_beginning_of_another() {
        let ptx = "// written by\n.version 8.0\n.visible .entry sort_10()\n{\n\tten;\n}\n\n.visible .entry sort_1()\n{\n\tone;\n}\n";
        assert_eq!(alone(ptx, "sort_1").unwrap(), ".version 8.0\n\n.visible .entry sort_1()\n{\n\tone;\n}\n");
    }
}
