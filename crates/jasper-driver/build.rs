//! Here so that the manifest may say `links`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
