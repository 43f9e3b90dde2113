//! File formats of `jasper convert`.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use jasper_data::VectorFormat;
use jasper_interop::GraphFormat;

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Vectors.
    Vectors(VectorFormat),
    /// Ground truth: ibin or ivecs, by the file name.
    Truth,
    /// A Jasper index.
    Index,
    /// A graph of another library.
    Graph(GraphFormat),
}

const NAMED: [(&str, Format); 2] = [("truth", Format::Truth), ("index", Format::Index)];

impl Format {
    /// The format implied by a file name; an index if none.
    pub fn from_path(path: &Path) -> Self {
        let is_truth = path
            .extension()
            .is_some_and(|ending| ["ibin", "ivecs"].iter().any(|known| ending.eq_ignore_ascii_case(known)));
        match VectorFormat::from_path(path) {
            Some(format) => Self::Vectors(format),
            None if is_truth => Self::Truth,
            None => Self::Index,
        }
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let named = NAMED.iter().find(|(known, _)| *known == name).map(|&(_, format)| format);
        let named = named.or_else(|| name.parse().ok().map(Self::Graph));
        named.or_else(|| name.parse().ok().map(Self::Vectors)).ok_or_else(|| {
            format!(
                "unknown format `{name}`; use fbin, f16bin, u8bin, i8bin, fvecs, bvecs, npy, truth, index, \
                 diskann, hnswlib, faiss or parlayann"
            )
        })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vectors(format) => write!(f, "{format}"),
            Self::Graph(format) => write!(f, "{format}"),
            other => {
                f.write_str(NAMED.iter().find(|(_, format)| format == other).map_or("", |(name, _)| name))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        let graphs = GraphFormat::ALL.map(|format| (format.name(), Format::Graph(format)));
        for (name, format) in NAMED.into_iter().chain(graphs) {
            assert_eq!((name.parse(), format.to_string()), (Ok(format), name.to_owned()));
        }
        assert_eq!("u8bin".parse::<Format>().unwrap().to_string(), "u8bin");
        assert!("csv".parse::<Format>().unwrap_err().contains("unknown format `csv`"));
        assert_eq!(Format::from_path("a/base.fbin".as_ref()), "fbin".parse().unwrap());
        assert_eq!(["gt.ibin", "gt.IVECS"].map(|name| Format::from_path(name.as_ref())), [Format::Truth; 2]);
        assert_eq!(Format::from_path("vectors.jasper".as_ref()), Format::Index);
    }
}
