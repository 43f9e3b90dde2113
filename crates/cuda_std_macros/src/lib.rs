//! `#[kernel]`, the attribute of kernel functions that `cuda_std` reexports. It depends on no parser of Rust.

#![forbid(unsafe_code)]

mod function;
mod options;
mod token;

use proc_macro::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};

use token::{Misuse, Token};

/// Makes a function an entry point of the PTX, under its own name.
///
/// On the device the function gets the kernel ABI and is exported; on the host it is unchanged and runs in the
/// emulator. It must be an `unsafe fn` without generics or result, and its arguments plain data: usually one
/// `#[repr(C)]` struct, which the host passes byte for byte.
///
/// `max_threads` is the largest number of threads per block (1 to 1024, PTX's `.maxntid`), and `min_blocks` the number
/// of blocks that should fit on a multiprocessor (1 to 32, `.minnctapersm`): both bound the registers that the
/// assembler may use. They are passed in the PTX as a comment, `//@kernel NAME max_threads=128,min_blocks=8`, which the
/// build tool replaces by the directives.
///
/// ```
/// use cuda_std_macros::kernel;
///
/// /// # Safety
/// /// None.
/// #[kernel(max_threads = 128, min_blocks = 8)]
/// pub unsafe fn nothing(_n: u32) {}
///
/// # unsafe { nothing(1) };
/// ```
///
/// Other functions do not compile:
///
/// ```compile_fail
/// # use cuda_std_macros::kernel;
/// #[kernel]
/// pub fn safe(_n: u32) {}
/// ```
/// ```compile_fail
/// # use cuda_std_macros::kernel;
/// #[kernel]
/// pub unsafe fn generic<const N: u32>() {}
/// ```
/// ```compile_fail
/// # use cuda_std_macros::kernel;
/// #[kernel]
/// pub unsafe fn answers() -> u32 { 42 }
/// ```
/// ```compile_fail
/// # use cuda_std_macros::kernel;
/// #[kernel(max_threads = 2048)]
/// pub unsafe fn too_wide(_n: u32) {}
/// ```
/// ```compile_fail
/// # use cuda_std_macros::kernel;
/// #[kernel]
/// pub struct NoFunction;
/// ```
#[proc_macro_attribute]
pub fn kernel(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let options: Vec<TokenTree> = attribute.into_iter().collect();
    let item: Vec<TokenTree> = item.into_iter().collect();
    let bounds = match options::read(&describe(&options)) {
        Ok(bounds) => bounds,
        Err(misuse) => return compile_error(&options, misuse),
    };
    let keyword = match function::read(&describe(&item)) {
        Ok(keyword) => keyword,
        Err(misuse) => return compile_error(&item, misuse),
    };
    let (before, from_fn) = item.split_at(keyword);
    let name = from_fn[1].to_string();
    let comment = bounds.map_or_else(String::new, |bounds| {
        format!("#[cfg(target_arch = \"nvptx64\")] ::core::arch::global_asm!(\"//@kernel {name} {bounds}\");")
    });
    TokenStream::from_iter([
        code(&comment),
        code(&format!("#[cfg(target_arch = \"nvptx64\")] #[unsafe(export_name = \"{name}\")]")),
        before.iter().cloned().collect(),
        code("extern \"ptx-kernel\""),
        from_fn.iter().cloned().collect(),
        code("#[cfg(not(target_arch = \"nvptx64\"))]"),
        item.iter().cloned().collect(),
    ])
}

fn code(text: &str) -> TokenStream {
    text.parse().expect("the macro's own text is made of tokens")
}

fn describe(trees: &[TokenTree]) -> Vec<Token> {
    trees
        .iter()
        .map(|tree| match tree {
            TokenTree::Ident(word) => Token::Word(word.to_string()),
            TokenTree::Literal(literal) => Token::Literal(literal.to_string()),
            TokenTree::Punct(sign) => Token::Sign(sign.as_char()),
            TokenTree::Group(group) => match group.delimiter() {
                Delimiter::Parenthesis => Token::Parentheses,
                Delimiter::Brace => Token::Braces,
                Delimiter::Bracket | Delimiter::None => Token::Group,
            },
        })
        .collect()
}

/// `compile_error!("...")` at the offending token, or at the attribute.
fn compile_error(trees: &[TokenTree], misuse: Misuse) -> TokenStream {
    let span = misuse.at.and_then(|at| trees.get(at)).map_or_else(Span::call_site, TokenTree::span);
    let message = TokenTree::from(Literal::string(&misuse.message));
    let mut trees: [TokenTree; 3] = [
        Ident::new("compile_error", span).into(),
        Punct::new('!', Spacing::Alone).into(),
        Group::new(Delimiter::Brace, message.into()).into(),
    ];
    trees.iter_mut().for_each(|tree| tree.set_span(span));
    trees.into_iter().collect()
}
