//! The numbered examples run, and what they assert holds.

#[path = "../examples/01_build_and_search.rs"]
mod build_and_search;
#[path = "../examples/04_filter.rs"]
mod filter;
#[path = "../examples/05_inner_product.rs"]
mod inner_product;
#[path = "../examples/03_insert_and_delete.rs"]
mod insert_and_delete;
#[path = "../examples/02_reopen.rs"]
mod reopen;
#[path = "../examples/06_shared.rs"]
mod shared;
#[path = "../examples/07_tune_and_device.rs"]
mod tune_and_device;

macro_rules! runs {
    ($($example:ident)*) => {
        $(
            #[test]
            fn $example() {
                $example::main().unwrap();
            }
        )*
    };
}

runs!(build_and_search reopen insert_and_delete filter inner_product shared tune_and_device);
