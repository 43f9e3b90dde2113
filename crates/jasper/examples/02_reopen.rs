//! Builds an index from an npy file, saves it, and opens it again in both ways.

use std::error::Error;

use jasper::data::{VectorFile, write_vectors};
use jasper::file::IndexInfo;
use jasper::{
    Index, IndexBuilder, MatrixView, Metric, OpenOptions, SearchParams, bench::synthetic::Clusters,
};

fn main() -> Result<(), Box<dyn Error>> {
    // A file of 3,000 x 64 bytes, as `numpy.save` writes it. It is read chunk by chunk.
    let rows: Vec<u8> = Clusters::new(64, 2).rows(3_000, 0);
    let folder = tempfile::tempdir()?;
    let npy = folder.path().join("vectors.npy");
    write_vectors(&npy, MatrixView::new(&rows, 64)?)?;
    let index: Index<u8> = IndexBuilder::new(Metric::L2).build(&VectorFile::open(&npy)?)?;
    let hits = index.search(&rows[..64], SearchParams::new(10))?;

    // The file appears at once, complete. An existing file of that name is kept until then.
    let path = folder.path().join("vectors.jasper");
    let saved = index.save(&path)?;
    println!("{} bytes", saved.bytes);

    // Describe a file without opening it.
    let info = IndexInfo::read(&path)?;
    println!("{} keys, {} coordinates of {}", info.keys, info.dimension, info.element);
    assert_eq!(info.keys, 3_000);

    // Read it into memory and verify its checksums.
    let opened = Index::<u8>::open(&path)?;
    assert_eq!(opened.search(&rows[..64], SearchParams::new(10))?, hits);

    // Or map it: this returns at once, and pages are read when searches touch them.
    let mapped = OpenOptions::new().mapped(true).open::<u8>(&path)?;
    assert_eq!(mapped.search(&rows[..64], SearchParams::new(10))?, hits);

    // The element type has to be that of the file. AnyIndex::open takes any.
    let error = Index::<f32>::open(&path).unwrap_err();
    println!("{error}");
    assert!(error.to_string().ends_with("holds u8 vectors and was opened for f32; open it as u8"));
    Ok(())
}
