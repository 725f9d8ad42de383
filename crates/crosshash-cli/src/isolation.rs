//! Pictures are decoded in worker processes: this program starts itself with a hidden subcommand.

use std::process::ExitCode;

use anyhow::Result;

/// The hidden subcommand.
pub(crate) const WORKER: &str = "decode-worker";

/// Memory of a worker of a service, in bytes. Together with the service itself, two of them stay
/// below a gigabyte.
#[cfg(unix)]
const SERVICE_MEMORY: u64 = 320 << 20;
/// CPU seconds of a picture in a service.
#[cfg(unix)]
const SERVICE_SECONDS: u64 = 5;

/// Makes worker processes the decoders of this process. They are started when they are needed.
#[cfg(unix)]
pub(crate) fn install(is_service: bool) {
    use std::path::PathBuf;

    use crosshash::isolate::{Decoder, WorkerPool, WorkerSettings};

    // The file of this program may be replaced while it runs; Linux still finds the old one.
    let program = if cfg!(target_os = "linux") {
        Some(PathBuf::from("/proc/self/exe")).filter(|path| path.exists())
    } else {
        None
    };
    let mut settings = match crate::program::given() {
        Some([program, arguments @ ..]) => {
            let arguments = arguments.iter().cloned().chain([WORKER.into()]);
            WorkerSettings::new(program, arguments)
        }
        _ => {
            let own = program.or_else(|| std::env::current_exe().ok());
            let Some(program) = own else { return };
            WorkerSettings::new(program, [WORKER])
        }
    };
    if is_service {
        settings.memory = SERVICE_MEMORY;
        settings.seconds = SERVICE_SECONDS;
        settings.time = std::time::Duration::from_secs(4 * SERVICE_SECONDS);
    }
    Decoder::from(WorkerPool::new(settings)).install();
}

#[cfg(not(unix))]
pub(crate) fn install(_: bool) {}

/// Runs a worker.
#[cfg(unix)]
pub(crate) fn work() -> Result<ExitCode> {
    crosshash::isolate::run_worker()?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(not(unix))]
pub(crate) fn work() -> Result<ExitCode> {
    anyhow::bail!("worker processes are supported on Unix only")
}
