//! Row kinds: the combinations of element and distance operation that kernels are compiled for, each with the shape
//! that is patched in when a kernel is loaded.

/// Passes the row kinds, and `$more` like them, to the macro `$each`: element, distance operation, and infix of the
/// kernel names.
macro_rules! row_kinds {
    ($each:ident $($more:tt)*) => {
        $each! {
            F32 SquaredL2 f32_l2;
            F32 Dot f32_dot;
            F16 SquaredL2 f16_l2;
            F16 Dot f16_dot;
            U8 SquaredL2 u8_l2;
            U8 Dot u8_dot;
            I8 SquaredL2 i8_l2;
            I8 Dot i8_dot;
            $($more)*
        }
    };
}
#[cfg(feature = "kernels")]
pub(crate) use row_kinds;

/// Defines a function that returns the kernel with this infix in its name, and of these other parameters, for the
/// emulator.
#[cfg(feature = "kernels")]
macro_rules! body {
    ($body:ident($($parameter:ident: $Type:ty)?) -> $Args:ty { $($name:ident => $function:expr;)* }) => {
        #[cfg(not(target_arch = "nvptx64"))]
        pub(super) fn $body(name: &str $(, $parameter: $Type)?) -> unsafe fn($Args) {
            match name {
                $(stringify!($name) => $function,)*
                _ => unreachable!("there is no kernel for {name}"),
            }
        }
    };
}
#[cfg(feature = "kernels")]
pub(crate) use body;

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) use host::RowKind;

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use jasper_core::ElementKind;

    use crate::RowShape;
    use crate::graph::DistanceOpKind;

    /// The rows that a kernel reads: their element, what is summed over two of them, and how lanes share one.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub(crate) struct RowKind {
        pub(crate) element: ElementKind,
        pub(crate) op: DistanceOpKind,
        /// Whether rows are SQ4 vectors; `element` is then that of SQ8.
        pub(crate) is_sq4: bool,
        /// Infix of the kernel name, for example `f32_l2`.
        pub(crate) name: &'static str,
        /// The shape, which is patched into the PTX as constants.
        pub(crate) shape: RowShape,
    }

    macro_rules! table {
        ($($element:ident $op:ident $name:ident;)*) => {
            [$((ElementKind::$element, DistanceOpKind::$op, stringify!($name))),*]
        };
    }

    impl RowKind {
        /// Every kind, for rows of `row_bytes`.
        pub(crate) fn all(row_bytes: u32) -> impl Iterator<Item = Self> {
            assert!(row_bytes.is_multiple_of(16), "row_bytes ({row_bytes}) must be a multiple of 16");
            let shape = RowShape::new(row_bytes);
            let table = row_kinds!(table).into_iter();
            table.map(move |(element, op, name)| Self { element, op, is_sq4: false, name, shape })
        }

        /// The kinds of SQ4 rows of `row_bytes`, which are searched like bytes.
        pub(crate) fn all_sq4(row_bytes: u32) -> impl Iterator<Item = Self> {
            let names = [(DistanceOpKind::SquaredL2, "sq4_l2"), (DistanceOpKind::Dot, "sq4_dot")].into_iter();
            let kind = Self::new(ElementKind::I8, DistanceOpKind::Dot, row_bytes);
            names.map(move |(op, name)| Self { op, is_sq4: true, name, ..kind })
        }

        /// The kind of rows of `row_bytes`.
        pub(crate) fn new(element: ElementKind, op: DistanceOpKind, row_bytes: u32) -> Self {
            let mut all = Self::all(row_bytes);
            let kind = all.find(|kind| (kind.element, kind.op) == (element, op));
            kind.expect("the table has every element and operation")
        }

        /// # Panics
        /// Panics if rows of `shape` are not of this kind.
        pub(crate) fn check(&self, shape: RowShape) {
            assert_eq!(shape, self.shape, "{}: rows of another shape", self.name);
        }
    }
}
