//! What rustc is asked for: the flags, each with its reason.

use std::fmt;

/// The lowest GPU that the PTX runs on. The driver compiles it for later ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arch {
    /// A100: compute capability 8.0.
    #[default]
    Sm80,
    /// RTX 30: compute capability 8.6.
    Sm86,
    /// L4, L40, RTX 40: compute capability 8.9.
    Sm89,
    /// H100, H200: compute capability 9.0.
    Sm90,
    /// B200: compute capability 10.0.
    Sm100,
    /// RTX 50: compute capability 12.0.
    Sm120,
}

impl Arch {
    /// As rustc and ptxas name it: `sm_80`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sm80 => "sm_80",
            Self::Sm86 => "sm_86",
            Self::Sm89 => "sm_89",
            Self::Sm90 => "sm_90",
            Self::Sm100 => "sm_100",
            Self::Sm120 => "sm_120",
        }
    }

    /// The PTX version asked for: the first that knows the architecture, and 8.0 at least. Left alone, rustc writes 7.0
    /// for `sm_80`, which has no loads that pass the first cache by. 8.0 is CUDA 12.0: a driver from 525 on.
    fn ptx_feature(self) -> &'static str {
        match self {
            Self::Sm80 | Self::Sm86 | Self::Sm89 | Self::Sm90 => "ptx80",
            Self::Sm100 => "ptx86",
            Self::Sm120 => "ptx87",
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

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
pub struct Recipe {
    pub arch: Arch,
    pub features: Vec<String>,
    pub line_info: bool,
}

impl Recipe {
    /// The flags of every crate of the build, `core` among them.
    pub fn flags(&self) -> Vec<String> {
        let mut flags = vec![
            format!("-Ctarget-cpu={}", self.arch),
            format!("-Ctarget-feature=+{}", self.arch.ptx_feature()),
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
            // The fuller kinds of debug information turn off the optimisations of ptxas.
            flags.push("-Cdebuginfo=line-directives-only".to_owned());
        }
        flags
    }
}

/// One line that is equal for equal recipes.
impl fmt::Display for Recipe {
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
    fn a_recipe_is_one_line_and_differs_by_every_choice() {
        let plain = Recipe::default();
        let others = [
            Recipe { arch: Arch::Sm90, ..plain.clone() },
            Recipe { features: vec!["kernels".into()], ..plain.clone() },
            Recipe { line_info: true, ..plain.clone() },
        ];
        assert_eq!(plain.to_string().lines().count(), 1);
        assert!(plain.to_string().starts_with("-Ctarget-cpu=sm_80 -Ctarget-feature=+ptx80 "), "{plain}");
        for other in others {
            assert_ne!(plain.to_string(), other.to_string());
        }
    }
}
