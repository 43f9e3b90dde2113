//! Entry points: kernels as the PTX and the emulator know them.

/// An entry point of the PTX, and the same function for the emulator.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
pub struct Entry<Args> {
    /// The name in the PTX.
    pub name: &'static str,
    /// The function.
    #[cfg(feature = "kernels")]
    pub body: unsafe fn(Args),
    pub(crate) args: std::marker::PhantomData<fn(Args)>,
}

/// The [`Entry`] of a kernel, which is given as `module::function`.
#[cfg(not(target_arch = "nvptx64"))]
macro_rules! entry {
    ($module:ident::$entry:ident) => {
        $crate::Entry {
            name: stringify!($entry),
            #[cfg(feature = "kernels")]
            body: $module::$entry,
            args: std::marker::PhantomData,
        }
    };
}
#[cfg(not(target_arch = "nvptx64"))]
pub(crate) use entry;

/// Defines kernels that are instances of generic functions, in a module, and a table of them for the host: `module TABLE:
/// Key => Args;`, then a line for each kernel, `key => name = function, launch bounds;`, with the bounds of
/// `cuda_std::kernel`.
macro_rules! entry_table {
    (
        $(#[$doc:meta])*
        $module:ident $TABLE:ident: $Key:ty => $Args:ty;
        $($key:expr => $name:ident = $function:path, $($bound:ident $limit:tt),+;)*
    ) => {
        #[cfg(feature = "kernels")]
        mod $module {
            use super::*;

            $(
                /// A kernel of the family; its name says for which rows it is.
                ///
                /// # Safety
                /// The arguments are as the docs of their fields say, and the launch is that of the kernel's
                /// `launch_config` for them.
                #[cuda_std::kernel($($bound = $limit),+)]
                pub unsafe fn $name(args: $Args) {
                    // SAFETY: upheld by the caller.
                    unsafe { $function(args) }
                }
            )*
        }

        $(#[$doc])*
        #[cfg(not(target_arch = "nvptx64"))]
        pub(super) const $TABLE: &[($Key, $crate::Entry<$Args>)] =
            &[$(($key, $crate::entry::entry!($module::$name))),*];
    };
}
pub(crate) use entry_table;

/// The entry of `key`.
///
/// # Panics
/// If the table has none.
#[cfg(not(target_arch = "nvptx64"))]
pub(crate) fn find<Key: PartialEq + std::fmt::Debug, Args: Copy>(
    table: &[(Key, Entry<Args>)],
    key: &Key,
) -> Entry<Args> {
    let found = table.iter().find(|(of, _)| of == key);
    found.unwrap_or_else(|| panic!("there is no kernel for {key:?}")).1
}
