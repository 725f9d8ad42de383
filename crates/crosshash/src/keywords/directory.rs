//! `UnsyncedDirectory`: the files of a keyword index, written without syncing them.
//!
//! A keyword index is derived from items that are stored durably elsewhere, and every file of it has a
//! checksum. A killed process loses nothing that it has written. After a power failure, files may be
//! incomplete: the index is then opened with an error and built again, or it is an older one, which
//! [`reconcile`](super::KeywordIndex::reconcile) brings up to date. So a commit need not wait for the
//! disk, and a search that follows an insert does not either.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tantivy::Directory;
use tantivy::directory::error::{
    DeleteError, LockError, OpenDirectoryError, OpenReadError, OpenWriteError,
};
use tantivy::directory::{
    AntiCallToken, DirectoryLock, FileHandle, Lock, MmapDirectory, TerminatingWrite,
    WatchCallback, WatchHandle, WritePtr,
};

/// A folder of files that are memory mapped, and written without syncing them.
#[derive(Clone, Debug)]
pub(super) struct UnsyncedDirectory {
    files: MmapDirectory,
    folder: PathBuf,
    replacing: Arc<Mutex<()>>,
}

impl UnsyncedDirectory {
    pub(super) fn open(folder: &Path) -> Result<UnsyncedDirectory, OpenDirectoryError> {
        let files = MmapDirectory::open(folder)?;
        Ok(UnsyncedDirectory {
            files,
            folder: folder.to_owned(),
            replacing: Arc::default(),
        })
    }
}

/// A file; it is not synced at its end.
struct Unsynced(File);

impl Write for Unsynced {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl TerminatingWrite for Unsynced {
    fn terminate_ref(&mut self, _: AntiCallToken) -> io::Result<()> {
        self.0.flush()
    }
}

impl Directory for UnsyncedDirectory {
    fn get_file_handle(&self, path: &Path) -> Result<Arc<dyn FileHandle>, OpenReadError> {
        self.files.get_file_handle(path)
    }

    fn delete(&self, path: &Path) -> Result<(), DeleteError> {
        self.files.delete(path)
    }

    fn exists(&self, path: &Path) -> Result<bool, OpenReadError> {
        self.files.exists(path)
    }

    fn open_write(&self, path: &Path) -> Result<WritePtr, OpenWriteError> {
        let created =
            OpenOptions::new().write(true).create_new(true).open(self.folder.join(path));
        let file = created.map_err(|err| match err.kind() {
            io::ErrorKind::AlreadyExists => {
                OpenWriteError::FileAlreadyExists(path.to_owned())
            }
            _ => OpenWriteError::wrap_io_error(err, path.to_owned()),
        })?;
        Ok(BufWriter::new(Box::new(Unsynced(file))))
    }

    fn atomic_read(&self, path: &Path) -> Result<Vec<u8>, OpenReadError> {
        self.files.atomic_read(path)
    }

    fn atomic_write(&self, path: &Path, data: &[u8]) -> io::Result<()> {
        let _one_at_a_time = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.folder.join(path);
        let mut temporary = path.clone().into_os_string();
        temporary.push(".new");
        fs_err::write(&temporary, data)?;
        fs_err::rename(&temporary, &path)
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }

    fn acquire_lock(&self, lock: &Lock) -> Result<DirectoryLock, LockError> {
        self.files.acquire_lock(lock)
    }

    fn watch(&self, callback: WatchCallback) -> tantivy::Result<WatchHandle> {
        self.files.watch(callback)
    }
}
