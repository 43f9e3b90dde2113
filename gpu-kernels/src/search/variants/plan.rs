//! Which variant, and its grid.

use std::borrow::Cow;

use jasper_core::ElementKind;

use super::{CHUNKED_LOADS, TILED_LOADS, in_flight};
use crate::distances::{Loads, Measure};
use crate::search::SearchArgs;
use crate::search::layout::{Layout, Needs};
use crate::search::shape::{keeps_query, stays_in_registers};
use crate::{Kernel, Launch};

/// Lanes of a warp.
const WARP: u32 = 32;

/// Rows that variants exist for: SIFT's bytes, and the floats and halves of DEEP and of GIST.
const ROWS: [(ElementKind, u32); 5] = [
    (ElementKind::U8, 128),
    (ElementKind::F32, 384),
    (ElementKind::F32, 3840),
    (ElementKind::F16, 192),
    (ElementKind::F16, 1920),
];

/// Blocks a multiprocessor of grids that stay: fewer than it holds, as many, and more.
const PERSISTENT: [u32; 3] = [12, 16, 24];

/// What a variant does differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Choice {
    /// Rows are read so, by so many lanes: 8 or 32 by coordinates, 2 to 32 by chunks.
    Rows(Loads, u32),
    /// A block has so many queries, a warp each: 2, 4 or 8.
    Queries(u32),
    /// A team has so many warps: 2 or 4.
    Warps(u32),
    /// The frontier does not say what was visited, beyond how far the search has come.
    Unmarked,
    /// The grid has so many blocks, and each takes query after query.
    Persistent(u32),
    /// Halves are subtracted and squared as such, and become floats when some squares are summed up.
    Halves,
}

/// A kernel with one choice made differently. Arguments: [`SearchArgs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Variant {
    element: ElementKind,
    row_bytes: u32,
    choice: Choice,
}

impl Variant {
    /// The widest beam that variants take.
    pub const MOST_ENTRIES: u32 = 128;

    /// All that there are for some rows, on a device of so many multiprocessors; none for most rows.
    pub fn of(
        element: ElementKind,
        measure: Measure,
        row_bytes: u32,
        multiprocessors: u32,
    ) -> impl Iterator<Item = Self> {
        let exist = measure == Measure::SquaredL2 && ROWS.contains(&(element, row_bytes));
        let persistent = PERSISTENT.map(|blocks| Choice::Persistent(blocks * multiprocessors));
        let of_halves = element == ElementKind::F16;
        let tiled = [8, 32].map(|width| Choice::Rows(Loads::Tiled, width));
        let chunked = [2, 4, 8, 16, 32].map(|width| Choice::Rows(Loads::Chunked, width));
        let teams = [2, 4, 8].map(Choice::Queries).into_iter().chain([2, 4].map(Choice::Warps));
        let others = tiled.into_iter().chain(chunked).chain(teams).chain([Choice::Unmarked]);
        let choices = others.filter(move |_| !of_halves).chain(of_halves.then_some(Choice::Halves));
        let all = choices.chain(persistent).filter(move |_| exist);
        all.map(move |choice| Self { element, row_bytes, choice })
    }

    /// Every variant, on a device of so many multiprocessors.
    pub fn all(multiprocessors: u32) -> impl Iterator<Item = Self> {
        let of =
            move |(element, row_bytes)| Self::of(element, Measure::SquaredL2, row_bytes, multiprocessors);
        ROWS.into_iter().flat_map(of)
    }

    /// The element that rows hold, and their bytes.
    pub fn rows(&self) -> (ElementKind, u32) {
        (self.element, self.row_bytes)
    }

    /// What it does differently.
    pub fn choice(&self) -> Choice {
        self.choice
    }

    /// Queries of a block, and the warps of each.
    fn teams(&self) -> (u32, u32) {
        match self.choice {
            Choice::Rows(..) | Choice::Unmarked | Choice::Persistent(_) | Choice::Halves => (1, 1),
            Choice::Queries(queries) => (queries, 1),
            Choice::Warps(warps) => (1, warps),
        }
    }

    fn keeps_query(&self) -> bool {
        let Choice::Rows(loads, width) = self.choice else { return keeps_query(self.row_bytes) };
        let (unit, loads) = match loads {
            Loads::Tiled => (self.element.size() as u32, TILED_LOADS),
            Loads::Chunked => (16, CHUNKED_LOADS),
        };
        let units = self.row_bytes / unit;
        let (steps, _) = in_flight(units, width, loads);
        stays_in_registers(units, width, steps)
    }
}

impl Kernel for Variant {
    type Args = SearchArgs;

    fn entry(&self) -> Cow<'static, str> {
        let choice = match self.choice {
            Choice::Rows(loads, width) => format!("{}{width}", loads.name()),
            Choice::Queries(queries) => format!("q{queries}"),
            Choice::Warps(warps) => format!("t{warps}"),
            Choice::Unmarked => "unmarked".to_owned(),
            Choice::Persistent(_) => "persistent".to_owned(),
            Choice::Halves => "halves".to_owned(),
        };
        format!("variant_{}_b{}_{choice}", self.element, self.row_bytes).into()
    }

    /// # Panics
    /// If rows are of another length than this kernel is for, or the beam is wider than [`Self::MOST_ENTRIES`].
    fn launch(&self, args: &SearchArgs) -> Launch {
        assert_eq!(args.graph.row_bytes, self.row_bytes, "{}", self.entry());
        let (width, most) = (args.beam_width, Self::MOST_ENTRIES);
        assert!((1..=most).contains(&width), "beam_width ({width}) must be 1 to {most}");
        let (queries, warps) = self.teams();
        let query = if self.keeps_query() { 0 } else { args.graph.row_bytes };
        let needs = Needs { query, list: warps > 1, team: warps > 1 };
        let shared = queries * Layout::new(args, needs).end;
        let blocks = match self.choice {
            Choice::Persistent(blocks) => blocks.min(args.queries_len),
            _ => args.queries_len.div_ceil(queries),
        };
        Launch::linear(blocks, queries * warps * WARP).with_shared(shared)
    }

    #[cfg(feature = "kernels")]
    fn body(&self) -> unsafe fn(SearchArgs) {
        super::entries::body(&self.entry())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_have_enough_in_flight_and_no_more() {
        for variant in Variant::all(1) {
            let Choice::Rows(loads, width) = variant.choice() else { continue };
            let (unit, most) = match loads {
                Loads::Tiled => (variant.element.size() as u32, TILED_LOADS),
                Loads::Chunked => (16, CHUNKED_LOADS),
            };
            let units = variant.row_bytes / unit;
            let (steps, rows) = in_flight(units, width, most);
            let in_flight = (steps * rows) as u32;
            assert!(in_flight <= most && rows as u32 <= width, "{variant:?}: {steps} x {rows}");
            // Half of what is possible, unless a tile has no more rows, or the row no more units.
            let possible = most.min(width * units.div_ceil(width));
            assert!(2 * in_flight > possible, "{variant:?}: {in_flight} of {possible}");
        }
    }

    #[test]
    fn few_rows_have_variants() {
        let count = |element, bytes| Variant::of(element, Measure::SquaredL2, bytes, 1).count();
        assert_eq!((count(ElementKind::U8, 128), count(ElementKind::F16, 192)), (16, 4));
        assert_eq!(count(ElementKind::U8, 64), 0);
        assert_eq!(Variant::of(ElementKind::U8, Measure::Dot, 128, 1).count(), 0);
        assert_eq!(Variant::all(1).count(), 3 * 16 + 2 * 4);
    }
}
