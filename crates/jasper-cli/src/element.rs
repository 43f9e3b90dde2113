//! Dispatch from the element type of a file to a Rust type.

/// Evaluates `body` with `T` standing for the type that `kind` names.
macro_rules! with_element {
    ($kind:expr, $T:ident => $body:expr) => {
        match $kind {
            jasper::ElementKind::F32 => {
                type $T = f32;
                $body
            }
            jasper::ElementKind::F16 => {
                type $T = jasper::f16;
                $body
            }
            jasper::ElementKind::U8 => {
                type $T = u8;
                $body
            }
            jasper::ElementKind::I8 => {
                type $T = i8;
                $body
            }
        }
    };
}

pub(crate) use with_element;
