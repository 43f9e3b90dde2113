//! The kernels in a PTX text.

/// What an entry's line begins with.
const ENTRY: &str = ".visible .entry ";

/// A kernel, by the places of its lines.
#[derive(Debug, PartialEq)]
pub struct Entry<'a> {
    /// As written in Rust.
    pub name: &'a str,
    /// Index of the line that opens the body.
    pub open: usize,
    /// Index of the line that closes it.
    pub close: usize,
}

/// Finds every kernel of `lines`, in their order. A body ends where its braces close, since inline assembly may hold
/// more.
pub fn entries<'a>(lines: &[&'a str]) -> Vec<Entry<'a>> {
    let mut found: Vec<Entry<'a>> = Vec::new();
    let mut name = None;
    let mut depth = 0_usize;
    for (at, line) in lines.iter().enumerate() {
        if let Some(rest) = line.strip_prefix(ENTRY) {
            name = rest.split('(').next();
        }
        for brace in code(line).chars() {
            match brace {
                '{' => {
                    if let (0, Some(name)) = (depth, name.take()) {
                        found.push(Entry { name, open: at, close: at });
                    }
                    depth += 1;
                }
                '}' => {
                    depth = depth.saturating_sub(1);
                    // The first closing brace on the outermost level is that of the entry opened last.
                    if let (0, Some(entry)) =
                        (depth, found.last_mut().filter(|entry| entry.close == entry.open))
                    {
                        entry.close = at;
                    }
                }
                _ => {}
            }
        }
    }
    found
}

/// The line without its comment.
pub fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_end_at_their_own_brace() {
        let text = "\
.visible .func helper()
{
\tret;
}
.visible .entry one(
\t.param .u64 one_param_0
)
{
\t{ .reg .b32 t; }
{
\tld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1]; // } is not code
}
\tret;
}
.visible .entry two()
{
\tret;
}";
        let lines: Vec<&str> = text.lines().collect();
        let expected =
            [Entry { name: "one", open: 7, close: 13 }, Entry { name: "two", open: 15, close: 17 }];
        assert_eq!(entries(&lines), expected);
    }
}
