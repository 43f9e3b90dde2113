//! The grids of a sort.

use std::borrow::Cow;

use super::{BeginsArgs, COUNT_THREADS, COUNT_TILE, CountArgs, PassArgs, RADIX, SharedLayout, WARPS};
use crate::{Kernel, Launch};

/// The kernel that counts the digits of all passes.
#[derive(Clone, Copy, Debug)]
pub struct Count;

impl Kernel for Count {
    type Args = CountArgs;

    fn entry(&self) -> Cow<'static, str> {
        "sort_count".into()
    }

    fn launch(&self, args: &CountArgs) -> Launch {
        let shared = args.bits.passes() * RADIX * size_of::<u32>() as u32;
        Launch::linear(args.len.div_ceil(COUNT_TILE), COUNT_THREADS).with_shared(shared)
    }

    #[cfg(feature = "kernels")]
    fn body(&self) -> unsafe fn(CountArgs) {
        super::count::sort_count
    }
}

/// The kernel that sums the counts of each pass.
#[derive(Clone, Copy, Debug)]
pub struct Begins;

impl Kernel for Begins {
    type Args = BeginsArgs;

    fn entry(&self) -> Cow<'static, str> {
        "sort_begins".into()
    }

    fn launch(&self, args: &BeginsArgs) -> Launch {
        Launch::linear(args.passes, RADIX).with_shared(WARPS * size_of::<u32>() as u32)
    }

    #[cfg(feature = "kernels")]
    fn body(&self) -> unsafe fn(BeginsArgs) {
        super::begins::sort_begins
    }
}

/// The kernel that sorts by one digit.
#[derive(Clone, Copy, Debug)]
pub struct Pass;

impl Kernel for Pass {
    type Args = PassArgs;

    fn entry(&self) -> Cow<'static, str> {
        "sort_pass".into()
    }

    fn launch(&self, args: &PassArgs) -> Launch {
        Launch::linear(args.look_back.tiles, RADIX).with_shared(SharedLayout::BYTES)
    }

    #[cfg(feature = "kernels")]
    fn body(&self) -> unsafe fn(PassArgs) {
        super::pass::sort_pass
    }
}
