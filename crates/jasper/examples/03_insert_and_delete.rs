//! Changes an index: inserts, replaces, deletes and restores vectors, and releases memory.

use std::error::Error;

use jasper::{DeleteKeys, Index, IndexBuilder, Key, MatrixView, Metric, NewKeys, SearchParams};
use jasper_core::synthetic::Clusters;

fn main() -> Result<(), Box<dyn Error>> {
    let rows: Vec<f32> = Clusters::new(16, 3).rows(3_000, 0);
    let part = |from: usize, to: usize| MatrixView::new(&rows[from * 16..to * 16], 16);
    let index = IndexBuilder::new(Metric::Cosine).build(part(0, 2_000)?)?;
    let nearest = |index: &Index, row: usize| -> Result<Key, Box<dyn Error>> {
        Ok(index.search(&rows[row * 16..][..16], SearchParams::new(1))?[0].key)
    };

    // Insert under keys of your own, or under those that follow the largest one.
    let keys: Vec<Key> = (1_000_000..1_000_500).collect();
    index.insert(part(2_000, 2_500)?, &keys)?;
    assert_eq!(nearest(&index, 2_000)?, 1_000_000);
    let report = index.insert(part(2_500, 3_000)?, NewKeys::NEXT)?;
    assert_eq!(report.first_key, Some(1_000_500));

    // A key that is taken is an error, unless its vector is to be replaced.
    println!("{}", index.insert(part(0, 1)?, &[7]).unwrap_err());
    index.upsert(part(0, 1)?, &[7])?;

    // Deleted keys are not returned from here on. They can be restored until they are consolidated.
    index.delete(&[1_000_000])?;
    assert_ne!(nearest(&index, 2_000)?, 1_000_000);
    index.undelete(&[1_000_000])?;
    assert_eq!(nearest(&index, 2_000)?, 1_000_000);

    // A call takes effect as a whole or not at all: because one key is unknown, no key is deleted. `Present` ignores it.
    println!("{}", index.delete(&[8, 4_000_000]).unwrap_err());
    assert!(index.contains(8));
    assert_eq!(index.delete(DeleteKeys::Present(&[8, 4_000_000]))?, 1);

    // Consolidation removes deleted vectors from the graph; compaction releases their memory.
    index.delete(&keys)?;
    let freed = index.consolidate()?.freed;
    index.compact()?;
    println!("{freed} slots freed, {} keys left", index.len());
    assert_eq!(index.len(), 2_499);
    assert!(index.check()?.is_sound(), "every vector that is left can be found");
    Ok(())
}
