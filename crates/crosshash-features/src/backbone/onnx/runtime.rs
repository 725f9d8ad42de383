//! ONNX networks run by Microsoft's onnxruntime (crate `ort`). The user provides the shared library
//! (it is part of the Python package); it is loaded when the first network is opened.
//!
//! Several single-threaded sessions scale better over many pictures than one session on all
//! threads; sessions are opened as concurrent calls need them. A large network has one session on
//! all threads, so that its weights are in memory only once.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock};

use ort::environment::Environment;
use ort::session::{Session, SessionInputValue};
use ort::value::TensorRef;

use super::{Input, Network, Values, fault, no_output};
use crate::{Error, Result};

/// Networks above this file size have one session.
const LARGE: u64 = 128 << 20;

pub(super) struct Runtime {
    path: PathBuf,
    environment: &'static Environment,
    names: Vec<String>,
    output: String,
    sessions: Vec<Mutex<Option<Session>>>, // maximum number of concurrent calls
}

/// A process can load only one library.
static LOADED: OnceLock<(PathBuf, Environment)> = OnceLock::new();

fn environment(library: &Path) -> Result<&'static Environment> {
    let library = find(library)?;
    if LOADED.get().is_none() {
        let begun = ort::init_from(&library)
            .map_err(|err| fault("onnxruntime cannot be loaded", err))?;
        let made = begun
            .with_telemetry(false)
            .build()
            .map_err(|err| fault("onnxruntime cannot be started", err))?;
        let _ = LOADED.set((library.clone(), made)); // another thread was first
    }
    match LOADED.get() {
        Some((loaded, environment)) if *loaded == library => Ok(environment),
        Some((loaded, _)) => Err(Error::content(format!(
            "onnxruntime is already loaded from {}; a process can load only one library",
            loaded.display()
        ))),
        None => Err(Error::content("onnxruntime cannot be started")),
    }
}

/// Finds the library: the file itself, or in a folder (of the Python package, or its `capi`).
fn find(library: &Path) -> Result<PathBuf> {
    if library.is_file() {
        return Ok(library.to_owned());
    }
    for folder in [library.to_owned(), library.join("capi"), library.join("lib")] {
        let Ok(listing) = fs_err::read_dir(&folder) else { continue };
        let mut found: Vec<PathBuf> =
            listing.filter_map(|entry| Some(entry.ok()?.path())).collect();
        found.retain(|path| {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            let name = name.unwrap_or_default();
            name.starts_with("libonnxruntime.so")
                || (name.starts_with("libonnxruntime") && name.ends_with(".dylib"))
                || name == "onnxruntime.dll"
        });
        found.sort_unstable();
        if let Some(found) = found.pop() {
            return Ok(found);
        }
    }
    Err(Error::content(
        "no onnxruntime shared library found; `pip install onnxruntime` installs it in \
         site-packages/onnxruntime/capi",
    )
    .at(library))
}

pub(super) fn open(path: &Path, output: Option<&str>, library: &Path) -> Result<Runtime> {
    let environment = environment(library)?;
    let threads = rayon::current_num_threads();
    let is_large = fs_err::metadata(path)?.len() > LARGE;
    let (calls, each) = if is_large { (1, threads) } else { (threads, 1) };
    let session = start(environment, path, each)?;
    let names = session.inputs().iter().map(|input| input.name().to_owned()).collect();
    let outputs: Vec<&str> = session.outputs().iter().map(|output| output.name()).collect();
    let output = match output {
        None => outputs.first().copied().unwrap_or(""),
        Some(name) => outputs
            .iter()
            .copied()
            .find(|known| *known == name)
            .ok_or_else(|| no_output(name, outputs.iter().copied()))?,
    };
    let output = output.to_owned();
    let mut sessions = vec![Mutex::new(Some(session))];
    sessions.resize_with(calls, || Mutex::new(None));
    Ok(Runtime { path: path.to_owned(), environment, names, output, sessions })
}

fn start(environment: &Environment, path: &Path, threads: usize) -> Result<Session> {
    Session::builder(environment)
        .and_then(|builder| Ok(builder.with_intra_threads(threads)?))
        .and_then(|mut builder| builder.commit_from_file(path))
        .map_err(|err| fault("onnxruntime failed to open the network", err))
}

impl Runtime {
    /// Locks an unused session; waits if all are in use.
    fn free(&self) -> Result<MutexGuard<'_, Option<Session>>> {
        let free = self.sessions.iter().find_map(|session| session.try_lock().ok());
        match free {
            Some(free) => Ok(free),
            None => self.sessions[0]
                .lock()
                .map_err(|_| Error::content("the network failed in another thread")),
        }
    }
}

impl Network for Runtime {
    fn names(&self) -> &[String] {
        &self.names
    }

    fn is_single_threaded(&self) -> bool {
        self.sessions.len() > 1
    }

    fn run(&self, inputs: &[Input<'_>]) -> Result<(Vec<usize>, Vec<f32>)> {
        let failed = |err: ort::Error| fault("the network failed", err);
        let mut given: Vec<(Cow<'_, str>, SessionInputValue<'_>)> = Vec::new();
        for (name, input) in self.names.iter().zip(inputs) {
            let shape = input.shape.clone();
            let value = match input.values {
                Values::Floats(values) => {
                    TensorRef::from_array_view((shape, values)).map(Into::into)
                }
                Values::Integers(values) => {
                    TensorRef::from_array_view((shape, values)).map(Into::into)
                }
            };
            given.push((name.as_str().into(), value.map_err(failed)?));
        }
        let mut free = self.free()?;
        let session = match &mut *free {
            Some(session) => session,
            none => none.insert(start(self.environment, &self.path, 1)?),
        };
        let found = session.run(given).map_err(failed)?;
        let (shape, values) =
            found[self.output.as_str()].try_extract_tensor::<f32>().map_err(failed)?;
        let shape = shape.iter().map(|&size| usize::try_from(size).unwrap_or(0));
        Ok((shape.collect(), values.to_vec()))
    }
}
