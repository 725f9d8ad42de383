//! Where weights and cached features are: flags, then environment variables, then the cache
//! folder. The only file that knows the names of variables and folders.

use std::path::PathBuf;

use crosshash::backbone::Weights;

/// Where the weights of backbones are.
#[derive(clap::Args, Clone, Default)]
pub struct WeightPaths {
    /// Folder with weights of backbones; can be repeated. $CROSSHASH_WEIGHTS and the cache folder
    /// are searched next.
    #[arg(long, value_name = "DIR", help_heading = "Backbones")]
    pub weights: Vec<PathBuf>,

    /// Shared library of onnxruntime, used to run ONNX networks [default: $ORT_DYLIB_PATH].
    /// `none` uses the built-in runtime.
    #[arg(long, value_name = "FILE", help_heading = "Backbones")]
    pub onnxruntime: Option<PathBuf>,
}

impl WeightPaths {
    /// All folders in search order, and the runtime.
    pub fn weights(&self) -> Weights {
        let mut folders = self.weights.clone();
        folders
            .extend(variable("CROSSHASH_WEIGHTS").iter().flat_map(std::env::split_paths));
        folders.extend(WeightPaths::download_folder());
        let onnxruntime = self.onnxruntime.clone();
        let onnxruntime =
            onnxruntime.or_else(|| variable("ORT_DYLIB_PATH").map(PathBuf::from));
        let onnxruntime = onnxruntime.filter(|path| path.as_os_str() != "none");
        Weights { folders, onnxruntime }
    }

    /// The folder into which weights are downloaded.
    pub fn download_folder() -> Option<PathBuf> {
        Some(cache()?.join("weights"))
    }
}

/// The cache folder: `$CROSSHASH_CACHE`, or the user's cache.
pub fn cache() -> Option<PathBuf> {
    if let Some(folder) = variable("CROSSHASH_CACHE") {
        return Some(folder.into());
    }
    let users = variable("XDG_CACHE_HOME").map(PathBuf::from).filter(|p| p.is_absolute());
    let home = || Some(PathBuf::from(variable("HOME")?).join(".cache"));
    let local = || variable("LOCALAPPDATA").map(PathBuf::from); // Windows
    users.or_else(home).or_else(local).map(|folder| folder.join("crosshash"))
}

/// An environment variable that is not empty.
fn variable(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}
