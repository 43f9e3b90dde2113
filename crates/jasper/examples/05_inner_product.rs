//! Searches for the largest inner products, as a recommender does: longer vectors count for more.

use std::error::Error;

use jasper::{IndexBuilder, MatrixView, Metric, SearchParams};
use jasper_core::synthetic::Clusters;

fn main() -> Result<(), Box<dyn Error>> {
    let items: Vec<f32> = Clusters::new(20, 5).rows(3_000, 0);
    let index = IndexBuilder::new(Metric::InnerProduct).build(MatrixView::new(&items, 20)?)?;
    let user = &Clusters::new(20, 5).rows::<f32>(1, 1)[..];

    // A smaller distance is better, so the distance is the negated inner product.
    let hits = index.search(user, SearchParams::new(5))?;
    let product = |row: &[f32]| row.iter().zip(user).map(|(a, b)| a * b).sum::<f32>();
    for hit in &hits {
        let expected = product(&items[hit.key as usize * 20..][..20]);
        println!("item {} with {:.0}", hit.key, -hit.distance);
        assert!((hit.distance + expected).abs() <= expected.abs() * 1e-5);
    }
    let best = items.chunks(20).map(product).fold(f32::MIN, f32::max);
    assert!((hits[0].distance + best).abs() <= best * 1e-5, "the first answer is the best there is");

    // A vector need not be the nearest to itself: one of the same direction and twice the length is nearer.
    let longer: Vec<f32> = user.iter().map(|x| 2.0 * x).collect();
    index.insert(MatrixView::new(&[user, &longer].concat(), 20)?, &[10_001, 10_002])?;
    let hits = index.search(user, SearchParams::new(3_002).beam_width(3_002))?;
    let rank = |key| hits.iter().position(|hit| hit.key == key);
    assert!(rank(10_002) < rank(10_001));
    Ok(())
}
