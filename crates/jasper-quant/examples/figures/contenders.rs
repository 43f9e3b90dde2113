//! Everything that tells distances of one set, in one form: exact rows, RaBitQ, mixed codes, product quantization.

use jasper_core::{Element, ElementKind, MatrixView, Metric, VectorId, f16};
use jasper_quant::pq::{Pq, PqCodes, PqParams};
use jasper_quant::{Codes, Mixed, MixedParams, Quantizer, Rabitq, RabitqParams};

/// Distances to some rows, exact or estimated, written one for each id.
pub type Estimates<'a> = Box<dyn Fn(&[VectorId], &mut [f32]) + 'a>;

/// Rows in some form.
pub trait Rows {
    /// Bytes of a row.
    fn bytes(&self) -> usize;

    /// What tells the distances of `query` to rows.
    fn query<'a>(&'a self, query: &'a [f32]) -> Estimates<'a>;

    /// Codes some rows afresh, on the threads of `pool`; nothing where rows are not coded.
    fn encode(&self, rows: MatrixView<'_, f32>, pool: &rayon::ThreadPool);
}

/// Rows in a form that has a name.
pub struct Contender {
    /// What it is a size of.
    pub family: &'static str,
    /// Which size.
    pub size: String,
    pub rows: Box<dyn Rows>,
}

/// The family that codes nothing.
pub const EXACT: &str = "exact";
/// All families, as they are drawn.
pub const FAMILIES: [&str; 5] = ["RaBitQ", "mixed codes", "PQ, 8 bits", "PQ, 4 bits", EXACT];

/// Every contender for `base`, which a file holds as `element`.
pub fn all(
    metric: Metric,
    base: MatrixView<'_, f32>,
    element: ElementKind,
    pool: &rayon::ThreadPool,
) -> Result<Vec<Contender>, Box<dyn std::error::Error>> {
    let [rabitq, mixed, bytes, halves, exact] = FAMILIES;
    let mut all = Vec::new();
    let mut add = |family, size: String, rows| all.push(Contender { family, size, rows });
    for bits in 1..=8 {
        let quantizer = Rabitq::train(base, &RabitqParams::new(metric, bits))?;
        add(rabitq, format!("m = {bits}"), coded(quantizer, base, pool));
    }
    for sectors in [1, 2, 3, 4] {
        let quantizer = Mixed::train(base, &MixedParams { metric, sectors, seed: 1 }, pool)?;
        let [eight, four, two, one] = quantizer.coded_dimensions();
        add(mixed, format!("{eight} / {four} / {two} / {one} dimensions"), coded(quantizer, base, pool));
    }
    for (family, bits) in [(bytes, 8), (halves, 4)] {
        for row_bytes in [8, 16, 32, 64, 128] {
            let subspaces = row_bytes * 8 / bits as usize;
            if subspaces <= base.dimension() {
                let pq = Pq::train(base, &PqParams { metric, subspaces, bits, seed: 1 }, pool)?;
                let codes = pq.encode(base, pool);
                add(family, format!("{subspaces} subspaces"), Box::new(Product { pq, codes }));
            }
        }
    }
    match element {
        ElementKind::F32 => {}
        ElementKind::F16 => add(exact, "f16".into(), uncoded::<f16>(metric, base)),
        ElementKind::U8 => add(exact, "u8".into(), uncoded::<u8>(metric, base)),
        ElementKind::I8 => add(exact, "i8".into(), uncoded::<i8>(metric, base)),
    }
    add(exact, "f32".into(), uncoded::<f32>(metric, base));
    Ok(all)
}

struct Coded<Q> {
    quantizer: Q,
    codes: Codes,
}

fn coded<Q: Quantizer + 'static>(
    quantizer: Q,
    base: MatrixView<'_, f32>,
    pool: &rayon::ThreadPool,
) -> Box<dyn Rows> {
    let codes = Codes::from_vectors(&quantizer, base, pool);
    Box::new(Coded { quantizer, codes })
}

impl<Q: Quantizer> Rows for Coded<Q> {
    fn bytes(&self) -> usize {
        self.codes.layout().bytes()
    }

    fn query<'a>(&'a self, query: &'a [f32]) -> Estimates<'a> {
        let query = self.quantizer.query(query);
        Box::new(move |ids, out| query.estimate(&self.codes, ids, out))
    }

    fn encode(&self, rows: MatrixView<'_, f32>, pool: &rayon::ThreadPool) {
        Codes::from_vectors(&self.quantizer, rows, pool);
    }
}

struct Product {
    pq: Pq,
    codes: PqCodes,
}

impl Rows for Product {
    fn bytes(&self) -> usize {
        self.pq.bytes()
    }

    fn query<'a>(&'a self, query: &'a [f32]) -> Estimates<'a> {
        let query = self.pq.query(query);
        Box::new(move |ids, out| query.estimate(&self.codes, ids, out))
    }

    fn encode(&self, rows: MatrixView<'_, f32>, pool: &rayon::ThreadPool) {
        self.pq.encode(rows, pool);
    }
}

/// Rows as they are; for cosine, with the inverse of their lengths.
struct Uncoded<T> {
    metric: Metric,
    dimension: usize,
    values: Vec<T>,
    inverses: Vec<f32>,
}

fn uncoded<T: Element>(metric: Metric, base: MatrixView<'_, f32>) -> Box<dyn Rows> {
    let values = base.rows().flatten().map(|x| T::from_f32(*x)).collect();
    Box::new(Uncoded {
        metric,
        dimension: base.dimension(),
        values,
        inverses: base.rows().map(inverse).collect(),
    })
}

/// 1 over the length of a row; 1 where it has none.
fn inverse(row: &[f32]) -> f32 {
    let squared_norm = (f32::kernels().dot)(row, row);
    if squared_norm > 0.0 { squared_norm.sqrt().recip() } else { 1.0 }
}

impl<T: Element> Rows for Uncoded<T> {
    fn bytes(&self) -> usize {
        self.dimension * size_of::<T>()
    }

    fn query<'a>(&'a self, query: &'a [f32]) -> Estimates<'a> {
        let weight = inverse(query);
        let query: Vec<T> = query.iter().map(|x| T::from_f32(*x)).collect();
        Box::new(move |ids, out| {
            let rows: Vec<&[T]> =
                ids.iter().map(|id| &self.values[id.index() * self.dimension..][..self.dimension]).collect();
            match self.metric {
                Metric::L2 => (T::kernels().squared_l2_many)(&query, &rows, out),
                Metric::InnerProduct | Metric::Cosine => (T::kernels().dot_many)(&query, &rows, out),
            }
            match self.metric {
                Metric::L2 => {}
                Metric::InnerProduct => out.iter_mut().for_each(|x| *x = -*x),
                Metric::Cosine => {
                    for (x, id) in out.iter_mut().zip(ids) {
                        *x = 1.0 - *x * weight * self.inverses[id.index()];
                    }
                }
            }
        })
    }

    fn encode(&self, _: MatrixView<'_, f32>, _: &rayon::ThreadPool) {}
}
