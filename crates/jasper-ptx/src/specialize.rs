//! Constants of kernels: numbers in the place of values that a launch would pass.

/// The mark of a constant in a kernel: a move whose source may be replaced, and a comment with the constant's number.
const CONSTANT: &str = "; // constant ";
/// The directive for the minimum number of resident blocks per multiprocessor, which limits registers.
const MIN_BLOCKS: &str = ".minnctapersm ";

/// The PTX of a kernel in which constant number `n` (`cuda_std::constant`) is `constants[n]`, compiled for at least
/// `min_blocks` blocks per multiprocessor if it names a number of them. A launch of it must pass these values.
///
/// ```
/// use jasper_ptx::specialize;
///
/// let ptx = ".minnctapersm 16\n\tmov.b32 %r2, %r1; // constant 0\n\tadd.u32 %r3, %r2, 1;\n";
/// let expected = ".minnctapersm 24\n\tmov.b32 %r2, 208;\n\tadd.u32 %r3, %r2, 1;\n";
/// assert_eq!(specialize(ptx, &[208], 24), expected);
/// ```
///
/// # Panics
/// Panics if the kernel has a constant past the last.
pub fn specialize(ptx: &str, constants: &[u32], min_blocks: u32) -> String {
    let line = |line: &str| {
        if line.starts_with(MIN_BLOCKS) {
            return format!("{MIN_BLOCKS}{min_blocks}\n");
        }
        let Some((code, number)) = line.split_once(CONSTANT) else { return line.to_owned() };
        let (target, _) = code.rsplit_once(", ").expect("a move has a target and a source");
        let number: usize = number.trim_end().parse().expect("a constant has a number");
        format!("{target}, {};\n", constants[number])
    };
    ptx.split_inclusive('\n').map(line).collect()
}

/// The PTX of a kernel compiled for at most `most` blocks per multiprocessor, where it asks for more: the assembler
/// ignores a number that the device does not have.
///
/// ```
/// use jasper_ptx::cap_blocks;
///
/// assert_eq!(cap_blocks(".minnctapersm 24\n{\n}\n", 16), ".minnctapersm 16\n{\n}\n");
/// assert_eq!(cap_blocks(".minnctapersm 12\n{\n}\n", 16), ".minnctapersm 12\n{\n}\n");
/// ```
pub fn cap_blocks(ptx: &str, most: u32) -> String {
    let line = |line: &str| {
        let blocks = line.strip_prefix(MIN_BLOCKS).and_then(|blocks| blocks.trim_end().parse::<u32>().ok());
        if blocks.is_some_and(|blocks| blocks > most) {
            format!("{MIN_BLOCKS}{most}\n")
        } else {
            line.to_owned()
        }
    };
    ptx.split_inclusive('\n').map(line).collect()
}
