//! Saves an index, and opens it again in the two ways there are.

use std::error::Error;

use jasper::{Index, IndexBuilder, IndexInfo, MatrixView, Metric, SearchParams, bench::synthetic::Clusters};

#[doc(hidden)]
pub fn main() -> Result<(), Box<dyn Error>> {
    let rows: Vec<u8> = Clusters::new(64, 2).rows(3_000, 0);
    let index = IndexBuilder::new(Metric::L2).build(&MatrixView::new(&rows, 64)?)?;
    let answers = index.search(&rows[..64], SearchParams::new(10))?;

    // The file appears all at once; what had its name before is whole until then.
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("vectors.jasper");
    let saved = index.save(&path)?;
    println!("{} bytes", saved.bytes);

    // What a file holds is known from its first two pages.
    let info = IndexInfo::read(&path)?;
    println!("{} keys, {} coordinates of {}", info.keys, info.dimension, info.element);
    assert_eq!(info.keys, 3_000);

    // Into memory, every byte checked: for serving, and for changes.
    let opened = Index::<u8>::open(&path)?;
    assert_eq!(opened.search(&rows[..64], SearchParams::new(10))?, answers);

    // Mapped, at once, whatever the size: pages come in as searches touch them.
    let mapped = Index::<u8>::open_mapped(&path)?;
    assert_eq!(mapped.search(&rows[..64], SearchParams::new(10))?, answers);

    // The element is part of what a file is.
    let error = Index::<f32>::open(&path).unwrap_err();
    println!("{error}");
    assert!(error.to_string().ends_with("holds u8 vectors and was opened for f32; open it as u8"));
    Ok(())
}
