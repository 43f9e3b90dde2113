//! The grids of what follows links.

use std::borrow::Cow;

use super::{ReachArgs, TouchedArgs};
use crate::bits::WORD;
use crate::rows::warp_a_row;
use crate::{Kernel, Launch};

/// The kernel that goes one edge further. Arguments: [`ReachArgs`].
#[derive(Clone, Copy, Debug)]
pub struct Reach;

impl Kernel for Reach {
    type Args = ReachArgs;

    fn entry(&self) -> Cow<'static, str> {
        "reach".into()
    }

    fn launch(&self, args: &ReachArgs) -> Launch {
        warp_a_row(args.frontier_len)
    }

    #[cfg(feature = "kernels")]
    fn body(&self) -> unsafe fn(ReachArgs) {
        super::reach::reach
    }
}

/// The kernel that looks for vertices that deletes have touched: reads every row of a live vertex once. Arguments:
/// [`TouchedArgs`].
#[derive(Clone, Copy, Debug)]
pub struct FindTouched;

impl Kernel for FindTouched {
    type Args = TouchedArgs;

    fn entry(&self) -> Cow<'static, str> {
        "find_touched".into()
    }

    fn launch(&self, args: &TouchedArgs) -> Launch {
        warp_a_row(args.slots.div_ceil(WORD))
    }

    #[cfg(feature = "kernels")]
    fn body(&self) -> unsafe fn(TouchedArgs) {
        super::touched::find_touched
    }
}
