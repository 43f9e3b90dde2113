//! Compares the executor with textbook code and with golden files.
//!
//! | module | what is compared |
//! | --- | --- |
//! | [`reference`] | beam search, prune and back edges as in the paper, on lists and maps, one vertex at a time |
//! | [`search`] | results and their cost, with the reference's |
//! | [`link`] | the rows of a batch and of its targets, with the reference's |
//! | [`reach`] | reachability after each of many changes, with what it must be |
//! | [`golden`] | results, cost and graphs on fixed sets, with a golden file |

#![forbid(unsafe_code)]

mod golden;
mod link;
mod reach;
mod reference;
mod search;

/// Calls a generic function of one element type, and any arguments, for all four.
macro_rules! for_each_element {
    ($test:ident $(, $argument:expr)*) => {{
        $test::<f32>($($argument),*);
        $test::<jasper_core::f16>($($argument),*);
        $test::<u8>($($argument),*);
        $test::<i8>($($argument),*);
    }};
}
pub(crate) use for_each_element;
