//! The executor against textbook code, and against what it did before.
//!
//! | module | what is compared |
//! | --- | --- |
//! | [`twin`] | beam search, prune and back edges as the paper has them, on lists and maps, one vertex after the other |
//! | [`search`] | answers, and what they cost, with the twin's |
//! | [`link`] | the rows of a batch, and of what it leads to, with the twin's |
//! | [`golden`] | answers, work and graphs on fixed sets, with those in a file |

#![forbid(unsafe_code)]

mod golden;
mod link;
mod search;
mod twin;

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
