//! The flags of rustc, each with its reason.

use std::fmt;

/// The lowest GPU that the PTX runs on, an A100. The driver compiles it for later ones.
pub const ARCH: &str = "sm_80";

/// The version of PTX. Left alone, rustc writes 7.0 for `sm_80`, which has no loads that bypass the first cache. 8.0 is
/// CUDA 12.0: a driver from 525 on.
const PTX_VERSION: &str = "ptx80";

/// The target that device code is compiled for.
pub const TARGET: &str = "nvptx64-nvidia-cuda";

/// The profile of device code, whatever the workspace says of host code: one unit, so that everything can be inlined.
pub const PROFILE: [(&str, &str); 6] = [
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "3"),
    ("CARGO_PROFILE_RELEASE_LTO", "fat"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "none"),
    ("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "false"),
    ("CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS", "false"),
];

/// Everything but the compiler and the sources that decides the bytes of the PTX.
#[derive(Clone, Debug, Default)]
pub struct BuildFlags {
    pub features: Vec<String>,
    pub line_info: bool,
}

impl BuildFlags {
    /// The flags of every crate of the build, `core` among them.
    pub fn flags(&self) -> Vec<String> {
        let mut flags = vec![
            format!("-Ctarget-cpu={ARCH}"),
            format!("-Ctarget-feature=+{PTX_VERSION}"),
            // `--emit=asm` writes the PTX before the linker runs, so that any program which ends well will do for one.
            "-Clinker=true".to_owned(),
            // A panic becomes `trap`. Otherwise bounds checks call into `core::panicking`.
            "-Zunstable-options".to_owned(),
            "-Cpanic=immediate-abort".to_owned(),
            // This pass copies barriers into both arms of a branch (rust-lang/rust#137086).
            "-Zmir-enable-passes=-JumpThreading".to_owned(),
            // Constant loops over arrays must unroll whole for the arrays to live in registers.
            "-Cllvm-args=-unroll-threshold=4000".to_owned(),
            // Others must not: copies of a loop of unknown length cost registers, and the driver's time.
            "-Cllvm-args=-unroll-runtime=0".to_owned(),
        ];
        if self.line_info {
            // The fuller kinds of debug information turn off the optimizations of ptxas.
            flags.push("-Cdebuginfo=line-directives-only".to_owned());
        }
        flags
    }
}

/// One line that is equal for equal flags.
impl fmt::Display for BuildFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.flags().join(" "))?;
        for (variable, value) in PROFILE {
            let setting = variable.trim_start_matches("CARGO_PROFILE_RELEASE_").to_lowercase();
            write!(f, " {setting}={value}")?;
        }
        match &self.features[..] {
            [] => Ok(()),
            features => write!(f, " features={}", features.join(",")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_one_line_and_differ_by_every_choice() {
        let plain = BuildFlags::default();
        let others = [
            BuildFlags { features: vec!["kernels".into()], ..plain.clone() },
            BuildFlags { line_info: true, ..plain.clone() },
        ];
        assert_eq!(plain.to_string().lines().count(), 1);
        assert!(plain.to_string().starts_with("-Ctarget-cpu=sm_80 -Ctarget-feature=+ptx80 "), "{plain}");
        for other in others {
            assert_ne!(plain.to_string(), other.to_string());
        }
    }
}
