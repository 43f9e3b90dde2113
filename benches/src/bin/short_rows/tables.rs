//! The tables of a graph in host memory, and what can be done to them: moving vertices, sorting and dropping edges.

use anyhow::{Result, ensure};
use gpu_kernels::graph::NO_SLOT;
use jasper::{Element, Index, Key};
use jasper_core::{Slot, padded_len};
use rayon::prelude::*;

/// Places for the neighbors of a vertex.
pub const DEGREE: usize = 64;

/// The tables, as kernels read them.
pub struct Tables<T> {
    /// Elements of a row, with padding.
    pub width: usize,
    /// `[slots][width]`
    pub rows: Vec<T>,
    /// `[slots][DEGREE]`, then [`NO_SLOT`].
    pub edges: Vec<u32>,
    /// `[slots]`
    pub keys: Vec<Key>,
    pub starts: Vec<u32>,
}

impl<T: Element> Tables<T> {
    /// The tables of a graph without deletes, with coordinates rounded to `T`.
    pub fn of<F: Element>(index: &Index<F>) -> Result<Self> {
        index.read_graph(|graph| {
            let (slots, width) = (graph.slots(), padded_len::<T>(graph.dimension()));
            ensure!(graph.params().max_degree() <= DEGREE, "at most {DEGREE} edges");
            let (mut rows, mut edges) = (vec![T::default(); slots * width], vec![NO_SLOT; slots * DEGREE]);
            rows.par_chunks_mut(width).enumerate().for_each(|(slot, out)| {
                let row = graph.vectors().get(Slot::from_index(slot));
                out.iter_mut().zip(row).for_each(|(out, x)| *out = T::from_f32(x.to_f32()));
            });
            edges.par_chunks_mut(DEGREE).enumerate().for_each(|(slot, out)| {
                let row = graph.adjacency().neighbors(Slot::from_index(slot));
                out.iter_mut().zip(row).for_each(|(out, neighbor)| *out = neighbor.get());
            });
            let keys = (0..slots).map(|slot| graph.keys().first_key(Slot::from_index(slot))).collect();
            let starts = graph.adjacency().start_points().iter().map(|slot| slot.get()).collect();
            Ok(Self { width, rows, edges, keys, starts })
        })?
    }

    pub fn slots(&self) -> usize {
        self.keys.len()
    }

    pub fn row(&self, slot: u32) -> &[T] {
        &self.rows[slot as usize * self.width..][..self.width]
    }

    pub fn neighbors(&self, slot: u32) -> &[u32] {
        let row = &self.edges[slot as usize * DEGREE..][..DEGREE];
        &row[..row.iter().position(|&edge| edge == NO_SLOT).unwrap_or(DEGREE)]
    }

    pub fn in_degrees(&self) -> Vec<u32> {
        let mut degrees = vec![0; self.slots()];
        self.edges.iter().filter(|&&edge| edge != NO_SLOT).for_each(|&edge| degrees[edge as usize] += 1);
        degrees
    }

    pub fn mean_degree(&self) -> f64 {
        self.edges.par_iter().filter(|&&edge| edge != NO_SLOT).count() as f64 / self.slots() as f64
    }

    /// The same graph with its vertices in `order`, which lists the slots so far.
    pub fn renumbered(&self, order: &[u32]) -> Self {
        let rank = ranks(order);
        let rename = |edge: u32| if edge == NO_SLOT { NO_SLOT } else { rank[edge as usize] };
        let of = |&old: &u32| self.edges[old as usize * DEGREE..][..DEGREE].iter().map(|&edge| rename(edge));
        Self {
            width: self.width,
            rows: order.par_iter().flat_map_iter(|&old| self.row(old).iter().copied()).collect(),
            edges: order.par_iter().flat_map_iter(of).collect(),
            keys: order.iter().map(|&old| self.keys[old as usize]).collect(),
            starts: self.starts.iter().map(|&start| rename(start)).collect(),
        }
    }

    /// The edges with each row in ascending order of slots.
    pub fn sorted_edges(&self) -> Vec<u32> {
        let mut edges = self.edges.clone();
        edges.par_chunks_mut(DEGREE).for_each(<[u32]>::sort_unstable);
        edges
    }

    /// The edges without the farthest of each vertex, of which `kept` stay.
    pub fn shortened_edges(&self, kept: impl Fn(usize) -> usize + Sync) -> Vec<u32> {
        let squared_l2 = T::kernels().squared_l2;
        let mut edges = self.edges.clone();
        edges.par_chunks_mut(DEGREE).enumerate().for_each(|(slot, row)| {
            let of = |edge: u32| squared_l2(self.row(slot as u32), self.row(edge));
            row.sort_by_cached_key(|&edge| if edge == NO_SLOT { u32::MAX } else { of(edge).to_bits() });
            row[kept(slot)..].fill(NO_SLOT);
        });
        edges
    }
}

/// The place of each slot in `order`.
pub fn ranks(order: &[u32]) -> Vec<u32> {
    let mut ranks = vec![0; order.len()];
    order.iter().enumerate().for_each(|(rank, &slot)| ranks[slot as usize] = rank as u32);
    ranks
}
