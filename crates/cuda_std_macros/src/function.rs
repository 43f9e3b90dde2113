//! Checks that the function can be a kernel.

use crate::token::{Misuse, Token};

/// Reads attributes, visibility and qualifiers, `fn name(...) { ... }`; returns which token is `fn`.
pub fn read(tokens: &[Token]) -> Result<usize, Misuse> {
    let Some(keyword) = tokens.iter().position(|token| token.is_word("fn")) else {
        return Err(Misuse::new(None, "`#[kernel]` goes before a function"));
    };
    for (at, token) in tokens[..keyword].iter().enumerate() {
        if token.is_word("extern") {
            return Err(Misuse::new(at, "`#[kernel]` chooses the ABI; remove `extern`"));
        }
        if token.is_word("async") || token.is_word("const") {
            return Err(Misuse::new(at, "a kernel is a plain function; remove this word"));
        }
    }
    if !tokens[..keyword].iter().any(|token| token.is_word("unsafe")) {
        let why = "a kernel is an `unsafe fn`: whoever launches it vouches for its pointers and its shape";
        return Err(Misuse::new(keyword, why));
    }
    let after_name = keyword + 2;
    match tokens.get(after_name..).unwrap_or_default() {
        [Token::Parentheses, Token::Braces] => Ok(keyword),
        [Token::Sign('<'), ..] => {
            let why = "a kernel is exported by its name and cannot be generic; write one for each instance, \
                       around a generic function";
            Err(Misuse::new(after_name, why))
        }
        [Token::Parentheses, Token::Sign('-'), ..] => {
            Err(Misuse::new(after_name + 1, "a kernel returns nothing; write its results to memory"))
        }
        _ => Err(Misuse::new(keyword + 1, "a kernel is `unsafe fn name(arguments) { ... }`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::tokens;

    #[test]
    fn kernels_are_found_behind_attributes_and_visibility() {
        let keyword = |text| read(&tokens(text)).unwrap();
        assert_eq!(keyword("unsafe fn k () {}"), 1);
        assert_eq!(keyword("# [] # [] pub () unsafe fn k () {}"), 7);
    }

    #[test]
    fn what_cannot_be_a_kernel_is_blamed_and_explained() {
        let wrong = |text| {
            let misuse = read(&tokens(text)).unwrap_err();
            (misuse.at, misuse.message)
        };
        assert_eq!(wrong("pub struct Args {}"), (None, "`#[kernel]` goes before a function".into()));
        let (at, why) = wrong("pub fn k () {}");
        assert_eq!(at, Some(1));
        assert!(why.starts_with("a kernel is an `unsafe fn`: whoever launches"), "{why}");
        let foreign = "pub unsafe extern \"C\" fn k () {}";
        assert_eq!(wrong(foreign), (Some(2), "`#[kernel]` chooses the ABI; remove `extern`".into()));
        let (at, why) = wrong("async unsafe fn k () {}");
        assert_eq!((at, why.as_str()), (Some(0), "a kernel is a plain function; remove this word"));
        let (at, why) = wrong("unsafe fn k < T > () {}");
        assert_eq!(at, Some(3));
        assert!(why.starts_with("a kernel is exported by its name and cannot be generic"), "{why}");
        let (at, why) = wrong("unsafe fn k () - > u32 {}");
        assert_eq!((at, why.as_str()), (Some(4), "a kernel returns nothing; write its results to memory"));
        assert_eq!(wrong("unsafe fn k () ;").1, "a kernel is `unsafe fn name(arguments) { ... }`");
    }
}
