//! The formats of vector files, and their file name extensions.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use jasper_core::ElementKind;

/// The format of a vector file. All formats are little-endian and row-major.
///
/// | name | other endings | bytes |
/// | --- | --- | --- |
/// | `fvecs`, `bvecs` | | each row: i32 dimension, then f32 or u8 values |
/// | `fbin`, `f16bin`, `u8bin`, `i8bin` | `fp16`, `hbin` for `f16bin` | u32 rows, u32 dimension, then all values |
/// | `npy` | | numpy's header, then all values; `<f4 <f2 \|u1 \|i1`, and `<f8` converted to f32 |
///
/// The element of a `bin` file follows from its name only. A suffix `.crop_nb_<n>`, which marks a subset of a benchmark
/// set, is ignored.
///
/// ```
/// use jasper_data::VectorFormat;
/// assert_eq!("hbin".parse(), Ok(VectorFormat::Bin(jasper_core::ElementKind::F16)));
/// assert_eq!(VectorFormat::from_path("base.1B.u8bin.crop_nb_10000".as_ref()).unwrap().to_string(), "u8bin");
/// assert_eq!(VectorFormat::from_path("base.bin".as_ref()), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum VectorFormat {
    /// TEXMEX records of f32.
    Fvecs,
    /// TEXMEX records of u8.
    Bvecs,
    /// The layout of big-ann-benchmarks and DiskANN, of this element.
    Bin(ElementKind),
    /// A numpy array of two dimensions, or of one for a single row.
    Npy,
}

/// File name extensions. The first of each format is its name.
const ENDINGS: [(&str, VectorFormat); 9] = [
    ("fvecs", VectorFormat::Fvecs),
    ("bvecs", VectorFormat::Bvecs),
    ("fbin", VectorFormat::Bin(ElementKind::F32)),
    ("f16bin", VectorFormat::Bin(ElementKind::F16)),
    ("fp16", VectorFormat::Bin(ElementKind::F16)),
    ("hbin", VectorFormat::Bin(ElementKind::F16)),
    ("u8bin", VectorFormat::Bin(ElementKind::U8)),
    ("i8bin", VectorFormat::Bin(ElementKind::I8)),
    ("npy", VectorFormat::Npy),
];

impl VectorFormat {
    /// The format that the extension of a file name stands for, case-insensitively.
    pub fn from_path(path: &Path) -> Option<Self> {
        // The ending counts, and a name need not be text.
        let name = path.file_name()?.to_string_lossy();
        let name = match name.rsplit_once(".crop_nb_") {
            Some((whole, rows)) if rows.bytes().all(|byte| byte.is_ascii_digit()) => whole,
            _ => &name,
        };
        name.rsplit_once('.')?.1.parse().ok()
    }

    /// The element of the format; `None` for `npy`, which can hold any.
    pub const fn element(self) -> Option<ElementKind> {
        match self {
            Self::Fvecs => Some(ElementKind::F32),
            Self::Bvecs => Some(ElementKind::U8),
            Self::Bin(element) => Some(element),
            Self::Npy => None,
        }
    }

    /// Whether the format can hold this element.
    pub fn holds(self, element: ElementKind) -> bool {
        self.element().is_none_or(|only| only == element)
    }
}

impl fmt::Display for VectorFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = ENDINGS.iter().find(|(_, format)| format == self);
        f.write_str(known.map_or("unknown", |(name, _)| name))
    }
}

/// The error of parsing a [`VectorFormat`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown vector format `{0}`; use fvecs, bvecs, fbin, f16bin, u8bin, i8bin or npy")]
pub struct ParseFormatError(String);

impl FromStr for VectorFormat {
    type Err = ParseFormatError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let known = ENDINGS.iter().find(|(ending, _)| ending.eq_ignore_ascii_case(name));
        known.map(|&(_, format)| format).ok_or_else(|| ParseFormatError(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_the_format() {
        for (ending, format) in ENDINGS {
            assert_eq!(
                VectorFormat::from_path(format!("a.b.{}", ending.to_uppercase()).as_ref()),
                Some(format)
            );
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        for name in ["fbin", "base.ibin", "base", "base.fbin.crop_nb_1x", ""] {
            assert_eq!(VectorFormat::from_path(name.as_ref()), None, "{name}");
        }
        #[cfg(unix)]
        {
            let name: &std::ffi::OsStr =
                std::os::unix::ffi::OsStrExt::from_bytes(b"not\xfftext.fbin.crop_nb_9");
            assert_eq!(VectorFormat::from_path(name.as_ref()), Some(VectorFormat::Bin(ElementKind::F32)));
        }
        assert!(VectorFormat::Npy.holds(ElementKind::I8));
        assert!(!VectorFormat::Bvecs.holds(ElementKind::I8));
    }
}
