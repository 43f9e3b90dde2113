//! Eight threads search while another changes the index.

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use jasper::{Device, IndexBuilder, MatrixView, Metric, NewKeys, SearchParams};
use jasper_core::synthetic::Clusters;

fn main() -> Result<(), Box<dyn Error>> {
    let rows: Vec<f32> = Clusters::new(16, 6).rows(4_000, 0);
    let part = |from: usize, to: usize| MatrixView::new(&rows[from * 16..to * 16], 16);
    let index = IndexBuilder::new(Metric::L2).build(part(0, 2_000)?)?;
    let done = AtomicBool::new(false);

    let searches = thread::scope(|scope| {
        // Row 100 is never changed, so every search finds it.
        let search = || {
            let mut searches = 0;
            while !done.load(Ordering::Relaxed) || searches == 0 {
                let hits =
                    index.search(&rows[100 * 16..][..16], SearchParams::new(3)).expect("a query as rows are");
                assert_eq!(hits[0].key, 100);
                searches += 1;
            }
            searches
        };
        let searchers: Vec<_> = (0..8).map(|_| scope.spawn(search)).collect();

        let change = || -> Result<(), Box<dyn Error>> {
            index.insert(part(2_000, 3_999)?, NewKeys::NEXT)?;
            index.insert(&rows[3_999 * 16..], &[1 << 40])?;
            index.delete(&(500..1_500).collect::<Vec<_>>())?;
            index.consolidate()?;
            Ok(())
        };
        let changed = change();
        done.store(true, Ordering::Relaxed);
        let searches: usize =
            searchers.into_iter().map(|thread| thread.join().expect("no search fails")).sum();
        changed.map(|()| searches)
    })?;
    println!("{searches} searches during an insert of 2,000, a delete of 1,000 and a consolidation");

    let index = index.to_device(Device::CPU)?;
    assert_eq!(index.len(), 3_000);
    assert!(index.check()?.is_sound());
    Ok(())
}
