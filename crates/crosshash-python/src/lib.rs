//! The extension module `crosshash._crosshash`: thin over the facade of the library.
//!
//! The Python files beside this crate (`python/crosshash`) contain what users see: conversions of
//! arguments, data classes, documentation. This crate contains what needs Rust:
//!
//! | file | contents |
//! |---|---|
//! | `work.rs` | work without the interpreter lock: progress, Ctrl-C, panics |
//! | `errors.rs` | errors of the library as Python exceptions |
//! | `arrays.rs` | NumPy arrays as codes, features and labels, and back, without copies where possible |
//! | `arrow.rs` | tables of the Arrow C stream interface |
//! | `dataset.rs`, `model.rs`, `index.rs`, `evaluation.rs`, `supervision.rs`, `backbones.rs` | the library |
//! | `program.rs` | the command line program |

mod arrays;
mod arrow;
mod backbones;
mod dataset;
mod errors;
mod evaluation;
mod index;
mod model;
mod program;
mod supervision;
mod work;

/// Training allocates and frees the same large arrays every step; see `main.rs` of the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The Rust half of the Python package `crosshash`.
#[pyo3::pymodule]
mod _crosshash {
    #[pymodule_export]
    use super::arrow::read_arrow;
    #[pymodule_export]
    use super::backbones::{backbones, extract, extract_arrays};
    #[pymodule_export]
    use super::dataset::{Dataset, Features, import_data};
    #[pymodule_export]
    use super::errors::UnsuitableError;
    #[pymodule_export]
    use super::evaluation::{Report, evaluate, pack_signs};
    #[pymodule_export]
    use super::index::Index;
    #[pymodule_export]
    use super::model::{Model, check_config, methods};
    #[pymodule_export]
    use super::program::main;
    #[pymodule_export]
    use super::supervision::coefficients;
    #[pymodule_export]
    use super::work::panic_for_test;

    #[pymodule_init]
    fn init(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        use pyo3::types::PyModuleMethods as _;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
