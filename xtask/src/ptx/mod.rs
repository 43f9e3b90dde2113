//! The PTX of the kernels: built from Rust, compared with its sources, measured by NVIDIA's assembler.
//!
//! | module | command |
//! | --- | --- |
//! | [`build`] | `ptx build`: compiles the crates of kernels |
//! | [`check`] | `ptx check`: compares the committed PTX with its sources |
//! | [`report`] | `ptx report`: registers, shared memory, spills and stack of every kernel |
//!
//! [`show`] prints a kernel, [`ptxas`] fetches the assembler and reads what it prints.

pub mod build;
pub mod check;
mod ptxas;
pub mod report;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use cuda_builder::CudaBuilder;
use jasper_ptx::Archive;

use crate::workspace::Workspace;

/// How to update the PTX.
const REBUILD: &str = "run `cargo xtask ptx build` and commit the PTX with its sources";

/// A crate whose PTX is committed.
struct KernelCrate {
    /// Its folder, relative to the root.
    folder: &'static str,
    /// The file of the PTX, in `ptx` below that: text (`.ptx`) or an [`Archive`] (`.archive`).
    file: &'static str,
    /// Features that enable the kernels.
    features: &'static [&'static str],
    /// The kernel whose barriers are counted.
    canary: Option<&'static str>,
}

/// The test kernels of `cuda_std` come first: their canary fails where a compiler copies barriers.
const CRATES: [KernelCrate; 2] = [
    KernelCrate {
        folder: "crates/cuda_std/tests/device",
        file: "kernels.ptx",
        features: &[],
        canary: Some("canary"),
    },
    KernelCrate { folder: "gpu-kernels", file: "kernels.archive", features: &["kernels"], canary: None },
];

impl KernelCrate {
    /// The file of its PTX, relative to the root.
    fn path(&self) -> String {
        format!("{}/ptx/{}", self.folder, self.file)
    }

    /// A file in the folder of its PTX.
    fn beside(&self, workspace: &Workspace, file: &str) -> PathBuf {
        workspace.root.join(self.folder).join("ptx").join(file)
    }

    /// The bytes of its file for this PTX.
    fn encode(&self, ptx: &str) -> Vec<u8> {
        if self.file.ends_with(".archive") { Archive::write(ptx) } else { ptx.as_bytes().to_vec() }
    }

    /// The bytes of its file.
    fn committed(&self, workspace: &Workspace) -> Result<Vec<u8>> {
        let path = self.path();
        fs::read(workspace.root.join(&path)).with_context(|| format!("{path} cannot be read; {REBUILD}"))
    }

    /// The PTX in its file, as text.
    fn text(&self, workspace: &Workspace) -> Result<String> {
        let bytes = self.committed(workspace)?;
        if self.file.ends_with(".archive") {
            let archive = Archive::read(&bytes).and_then(|archive| archive.ptx());
            archive.with_context(|| format!("{} cannot be read; {REBUILD}", self.path()))
        } else {
            Ok(String::from_utf8(bytes)?)
        }
    }

    /// How it is compiled.
    fn builder(&self, workspace: &Workspace) -> CudaBuilder {
        let mut builder =
            CudaBuilder::new(workspace.root.join(self.folder)).target_dir(workspace.target.join("ptx"));
        for feature in self.features {
            builder = builder.feature(*feature);
        }
        if let Some(canary) = self.canary {
            builder = builder.canary(canary);
        }
        builder
    }

    /// Where its PTX goes that is not committed: as text, for the assembler and other tools.
    fn scratch(&self, workspace: &Workspace, kind: &str) -> PathBuf {
        workspace.target.join("ptx").join(kind).join(self.path()).with_extension("ptx")
    }
}

/// Prints the committed PTX of the kernel `entry`.
///
/// # Errors
/// When no file has a kernel of this name.
pub fn show(workspace: &Workspace, entry: &str) -> Result<()> {
    for kernels in &CRATES {
        let bytes = match kernels.committed(workspace)? {
            text if kernels.file.ends_with(".ptx") => Archive::write(str::from_utf8(&text)?),
            archive => archive,
        };
        if let Ok(ptx) = Archive::read(&bytes)?.kernel(entry) {
            print!("{ptx}");
            return Ok(());
        }
    }
    bail!("no kernel is called {entry}; `cargo xtask ptx report` lists them")
}
