//! Builds an index from an npy file, saves it, and opens it again in both ways.

use std::error::Error;

use jasper::{Index, IndexBuilder, IndexInfo, MatrixView, Metric, OpenOptions, SearchParams, VectorFile};
use jasper_core::synthetic::Clusters;
use jasper_data::write_vectors;

fn main() -> Result<(), Box<dyn Error>> {
    // A file of 3,000 x 64 bytes, as `numpy.save` writes it. It is read chunk by chunk. The index has its element type.
    let rows: Vec<u8> = Clusters::new(64, 2).rows(3_000, 0);
    let folder = tempfile::tempdir()?;
    let npy = folder.path().join("vectors.npy");
    write_vectors(&npy, MatrixView::new(&rows, 64)?)?;
    let index = IndexBuilder::new(Metric::L2).build(&VectorFile::open(&npy)?)?;
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
    let opened = Index::open(&path)?;
    assert_eq!(opened.search(&rows[..64], SearchParams::new(10))?, hits);

    // Or map it: this returns at once, and pages are read when searches touch them.
    let mapped = OpenOptions::new().mapped(true).open(&path)?;
    assert_eq!(mapped.search(&rows[..64], SearchParams::new(10))?, hits);

    // Queries may have another element type: they are rounded to that of the index, or refused if it cannot hold them.
    let query: Vec<f32> = rows[..64].iter().map(|&x| f32::from(x) + 0.25).collect();
    assert_eq!(opened.search(&query, SearchParams::new(10))?, hits);
    let error = opened.search(&[300.0_f32; 64], SearchParams::new(10)).unwrap_err();
    println!("{error}");
    assert!(error.to_string().contains("300"));
    Ok(())
}
