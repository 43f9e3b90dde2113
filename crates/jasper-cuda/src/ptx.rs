//! The driver and device that a PTX module requires, read from its directives.

use std::fmt;

/// The requirements of a PTX module, together with the driver and device in use. `Display` says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PtxRequirement {
    /// PTX version, if the module states one.
    pub ptx: Option<(u32, u32)>,
    /// Lowest compute capability, if the module names a target.
    pub target: Option<(u32, u32)>,
    /// Newest CUDA version that the driver supports.
    pub driver: (u32, u32),
    /// Compute capability of the device.
    pub device: (u32, u32),
}

impl PtxRequirement {
    /// Reads the directives of `ptx`.
    pub(crate) fn new(ptx: &str, driver: (u32, u32), device: (u32, u32)) -> Self {
        let after = |directive: &str| {
            let line = ptx.lines().find_map(|line| line.trim().strip_prefix(directive))?;
            Some(line.trim().trim_end_matches(|c: char| !c.is_ascii_digit()).to_owned())
        };
        let version = after(".version").and_then(|text| {
            let (major, minor) = text.split_once('.')?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        });
        let target = after(".target").and_then(|text| {
            let number: u32 = text.strip_prefix("sm_")?.parse().ok()?;
            Some((number / 10, number % 10))
        });
        Self { ptx: version, target, driver, device }
    }
}

/// The first CUDA version whose driver accepts PTX of this version, from the table of release notes in the PTX manual.
fn first_cuda(ptx: (u32, u32)) -> Option<(u32, u32)> {
    match ptx {
        (7, minor) => Some((11, minor)),
        (8, minor @ 0..=5) => Some((12, minor)),
        (8, minor @ 6..=8) => Some((12, minor + 1)),
        (9, minor) => Some((13, minor)),
        _ => None,
    }
}

impl fmt::Display for PtxRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (driver, device) = (dotted(self.driver), dotted(self.device));
        if let Some(cuda) = self.ptx.and_then(first_cuda).filter(|&cuda| cuda > self.driver) {
            let (ptx, cuda) = (dotted(self.ptx.unwrap_or_default()), dotted(cuda));
            return write!(
                f,
                "PTX {ptx} needs a driver for CUDA {cuda} or newer, this one is for {driver}; update the NVIDIA driver"
            );
        }
        if let Some(target) = self.target.filter(|&target| target > self.device) {
            let target = dotted(target);
            return write!(
                f,
                "they need a device of compute capability {target} or higher, this one has {device}; use another device, or the cpu"
            );
        }
        match self.ptx {
            Some(ptx) if first_cuda(ptx).is_none() => {
                let ptx = dotted(ptx);
                write!(
                    f,
                    "PTX {ptx} may be too new for this driver, which is for CUDA {driver}; update the NVIDIA driver"
                )
            }
            _ => write!(
                f,
                "the driver, for CUDA {driver}, and the device, of compute capability {device}, are new enough; \
                 the text is wrong"
            ),
        }
    }
}

fn dotted((major, minor): (u32, u32)) -> String {
    format!("{major}.{minor}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(ptx: &str, driver: (u32, u32), device: (u32, u32)) -> String {
        PtxRequirement::new(ptx, driver, device).to_string()
    }

    #[test]
    fn directives_are_read() {
        let read = PtxRequirement::new("// a comment\n.version 8.0\n.target sm_80\n", (12, 0), (9, 0));
        assert_eq!((read.ptx, read.target), (Some((8, 0)), Some((8, 0))));
        let read = PtxRequirement::new(".version 8.7 \r\n.target sm_100a, debug\n", (12, 0), (9, 0));
        assert_eq!(read.ptx, Some((8, 7)));
        assert_eq!(PtxRequirement::new("what", (12, 0), (9, 0)).ptx, None);
    }

    #[test]
    fn messages_say_what_to_do() {
        let head = ".version 8.6\n.target sm_90\n";
        let old_driver = message(head, (12, 4), (9, 0));
        assert!(
            old_driver.contains("PTX 8.6 needs a driver for CUDA 12.7 or newer, this one is for 12.4"),
            "{old_driver}"
        );
        let old_device = message(head, (13, 0), (8, 6));
        assert!(old_device.contains("compute capability 9.0 or higher, this one has 8.6"), "{old_device}");
        assert!(message(head, (13, 0), (9, 0)).contains("the text is wrong"));
        assert!(message(".version 10.2\n", (13, 0), (9, 0)).contains("may be too new"));
    }

    #[test]
    fn the_embedded_kernels_have_requirements() {
        let archive = jasper_ptx::Archive::read(gpu_kernels::PTX).unwrap();
        let kernels = PtxRequirement::new(archive.head(), (13, 0), (9, 0));
        assert!(kernels.ptx.and_then(first_cuda).is_some(), "{kernels:?}");
        assert!(kernels.target.is_some_and(|target| target >= (8, 0)), "{kernels:?}");
    }
}
