//! The committed PTX: every instruction that the documentation of `cuda_std` names, and each canary alive.

use std::fs;

use cuda_std_kernels::PTX;

/// The public modules, whose functions say which instruction they are.
const MODULES: [&str; 7] = ["atomic", "global", "math/mod", "mma", "shared", "thread", "warp"];

/// Instructions and special registers that the documentation of a module names.
fn instructions(module: &str) -> Vec<String> {
    let path = format!("{}/../../src/{module}.rs", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let docs = text.lines().filter_map(|line| line.trim_start().strip_prefix("///"));
    let quoted = docs.flat_map(|line| line.split('`').skip(1).step_by(2).map(str::to_owned));
    let first_words = quoted.filter_map(|code| code.split_whitespace().next().map(str::to_owned));
    first_words.filter(|word| is_instruction(word)).collect()
}

/// Whether `word` is `opcode.modifier` or `%register.part`, rather than a piece of Rust.
fn is_instruction(word: &str) -> bool {
    let opcode = word.split('.').next().unwrap_or_default();
    let letters = opcode.trim_start_matches('%').chars().all(|letter| letter.is_ascii_lowercase());
    letters && ((opcode.len() > 1 && word.contains('.')) || word == "%laneid")
}

/// The body of the kernel `entry`.
fn body(entry: &str) -> &'static str {
    let start = PTX.find(&format!(".visible .entry {entry}(")).unwrap_or_else(|| panic!("no {entry}"));
    PTX[start..].split("\n}").next().unwrap_or_default()
}

#[test]
fn every_instruction_that_the_documentation_names_is_used() {
    let named: Vec<String> = MODULES.into_iter().flat_map(instructions).collect();
    assert!(named.len() > 45, "{} are too few: has the documentation changed its form?", named.len());
    let unused: Vec<String> = named.into_iter().filter(|instruction| !PTX.contains(instruction)).collect();
    assert_eq!(unused, [""; 0]);
}

#[test]
fn what_threads_do_together_stays_in_one_place() {
    assert_eq!(body("canary").matches("bar.sync").count(), 1);
    let product = body("canary_product");
    assert_eq!(product.matches("mma.sync").count(), 1);
    // Between the two branches, and not in one of them.
    let branch = |at: usize| product.match_indices("bra ").nth(at).map(|(at, _)| at);
    let place = product.find("mma.sync");
    assert!(branch(0) < place && branch(1) > place, "{product}");
}
