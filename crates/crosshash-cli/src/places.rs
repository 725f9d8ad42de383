//! Where weights and kept features are looked for: flags, then the environment, then the cache
//! folder. The only file that knows the names of variables and folders.

use std::path::PathBuf;

use crosshash::backbone::Weights;

/// Where the weights of backbones are.
#[derive(clap::Args, Clone, Default)]
pub struct Places {
    /// A folder with weights of backbones (also: $CROSSHASH_WEIGHTS, then the cache folder).
    #[arg(long, value_name = "DIR", help_heading = "Backbones")]
    pub weights: Vec<PathBuf>,

    /// The shared library of onnxruntime, to run ONNX networks by (also: $ORT_DYLIB_PATH);
    /// `none` runs them in pure Rust.
    #[arg(long, value_name = "FILE", help_heading = "Backbones")]
    pub onnxruntime: Option<PathBuf>,
}

impl Places {
    /// All folders in the order in which they are searched, and the runtime.
    pub fn weights(&self) -> Weights {
        let mut folders = self.weights.clone();
        folders
            .extend(variable("CROSSHASH_WEIGHTS").iter().flat_map(std::env::split_paths));
        folders.extend(Places::fetched());
        let onnxruntime = self.onnxruntime.clone();
        let onnxruntime =
            onnxruntime.or_else(|| variable("ORT_DYLIB_PATH").map(PathBuf::from));
        let onnxruntime = onnxruntime.filter(|path| path.as_os_str() != "none");
        Weights { folders, onnxruntime }
    }

    /// The folder into which weights are fetched.
    pub fn fetched() -> Option<PathBuf> {
        Some(cache()?.join("weights"))
    }
}

/// The folder for what can be made or fetched again: `$CROSSHASH_CACHE`, or the user's cache.
pub fn cache() -> Option<PathBuf> {
    if let Some(folder) = variable("CROSSHASH_CACHE") {
        return Some(folder.into());
    }
    let users = variable("XDG_CACHE_HOME").map(PathBuf::from).filter(|p| p.is_absolute());
    let home = || Some(PathBuf::from(variable("HOME")?).join(".cache"));
    let local = || variable("LOCALAPPDATA").map(PathBuf::from); // Windows
    users.or_else(home).or_else(local).map(|folder| folder.join("crosshash"))
}

/// A variable of the environment that is not empty.
fn variable(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}
