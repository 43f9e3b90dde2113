//! The PTX of the kernels: built from Rust, held against its sources, measured by NVIDIA's assembler.
//!
//! | module | chore |
//! | --- | --- |
//! | [`build`] | `ptx build`: compiles the crates of kernels |
//! | [`check`] | `ptx check`: whether the committed PTX is that of the sources |
//! | [`report`] | `ptx report`: registers, shared memory, spills and stack of every kernel |
//!
//! [`ptxas`] fetches the assembler and reads what it prints.

pub mod build;
pub mod check;
mod ptxas;
pub mod report;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use cuda_builder::{Arch, CudaBuilder};

use crate::workspace::Workspace;

/// What brings PTX up to date.
const REBUILD: &str = "run `cargo xtask ptx build` and commit the PTX with its sources";

/// A crate whose PTX is committed, or a part of one.
struct KernelCrate {
    /// Its folder, relative to the root.
    folder: &'static str,
    /// The file of the PTX, in `ptx` below that.
    file: &'static str,
    /// What turns the kernels on.
    features: &'static [&'static str],
    /// The kernel by which barriers are counted.
    canary: Option<&'static str>,
    /// What the names of its kernels begin with, if others of the crate are in another file.
    only: Option<&'static str>,
}

/// The kernels of the library of devices come first: where the compiler gets a barrier wrong, theirs is the canary. What
/// the library's kernels are compared with comes last, in a file that no user of the library has.
const CRATES: [KernelCrate; 3] = [
    KernelCrate {
        folder: "crates/cuda_std/tests/device",
        file: "kernels.ptx",
        features: &[],
        canary: Some("canary"),
        only: None,
    },
    KernelCrate {
        folder: "gpu-kernels",
        file: "kernels.ptx",
        features: &["kernels"],
        canary: None,
        only: None,
    },
    KernelCrate {
        folder: "gpu-kernels",
        file: "variants.ptx",
        features: &["kernels", "variants"],
        canary: None,
        only: Some("variant_"),
    },
];

impl KernelCrate {
    /// Its PTX, relative to the root.
    fn ptx(&self) -> String {
        format!("{}/ptx/{}", self.folder, self.file)
    }

    /// The text of its PTX.
    fn committed(&self, workspace: &Workspace) -> Result<String> {
        let ptx = self.ptx();
        fs::read_to_string(workspace.root.join(&ptx))
            .with_context(|| format!("{ptx} cannot be read; {REBUILD}"))
    }

    /// How it is compiled.
    fn builder(&self, workspace: &Workspace) -> CudaBuilder {
        let mut builder = CudaBuilder::new(workspace.root.join(self.folder))
            .arch(Arch::Sm80)
            .target_dir(workspace.target.join("ptx"));
        for feature in self.features {
            builder = builder.feature(*feature);
        }
        if let Some(canary) = self.canary {
            builder = builder.canary(canary);
        }
        if let Some(beginning) = self.only {
            builder = builder.only(beginning);
        }
        builder
    }

    /// Where its PTX with lines goes: never beside the one that is committed.
    fn with_lines(&self, workspace: &Workspace) -> PathBuf {
        workspace.target.join("ptx/with-lines").join(self.ptx())
    }
}
