//! Mapped files that another process cuts short, or that the disk cannot read: the kernel sends
//! SIGBUS when such a page is read, which ends a program by default.
//!
//! The handler replaces the rest of the mapping by zeros and marks it as cut. The read returns, and
//! whoever reads the mapping checks the mark afterwards ([`Slot::is_cut`]), so that zeros are never
//! used as data. Pages of other mappings are handled as if there were no handler.
//!
//! A mapping cannot be unmapped while one of its pages is being read: the reader holds it. So the slot
//! that the handler finds is that of the mapping that is read. Ranges of slots that change at the same
//! time are empty until they are complete, and live mappings do not overlap.

#![expect(unsafe_code, reason = "signal handlers and replaced pages need system calls")]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Mappings that are guarded at the same time; further ones are not.
const SLOTS: usize = 4096;

struct Range {
    taken: AtomicBool,
    start: AtomicUsize,
    /// 0 while the range is empty.
    end: AtomicUsize,
    cut: AtomicBool,
}

static RANGES: [Range; SLOTS] = [const {
    Range {
        taken: AtomicBool::new(false),
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        cut: AtomicBool::new(false),
    }
}; SLOTS];

/// The place of a mapping in the list; freed on drop.
pub(super) struct Slot(usize);

impl Slot {
    /// Lists a mapping; `None` if there are too many.
    pub(super) fn new(bytes: &[u8]) -> Option<Slot> {
        let free = |range: &Range| !range.taken.swap(true, Ordering::AcqRel);
        let nth = RANGES.iter().position(free)?;
        let (range, start) = (&RANGES[nth], bytes.as_ptr() as usize);
        range.cut.store(false, Ordering::Release);
        range.start.store(start, Ordering::Release);
        range.end.store(start + bytes.len(), Ordering::Release);
        Some(Slot(nth))
    }

    /// Whether a part of the mapping could not be read, and is zeros now.
    pub(super) fn is_cut(&self) -> bool {
        RANGES[self.0].cut.load(Ordering::Acquire)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let range = &RANGES[self.0];
        range.end.store(0, Ordering::Release);
        range.taken.store(false, Ordering::Release);
    }
}

/// Installs the handler for this process.
pub(super) fn install() -> std::io::Result<()> {
    // SAFETY: `sigaction` with a zeroed and then filled structure; the handler below calls only
    // functions that are allowed in signal handlers.
    let failed = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut()) != 0
    };
    if failed { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

/// Replaces the unreadable rest of a guarded mapping by zeros.
extern "C" fn on_fault(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    _: *mut libc::c_void,
) {
    // SAFETY: the kernel passes a valid structure, and sets the address for SIGBUS.
    let address = unsafe { (*info).si_addr() } as usize;
    let holds = |range: &&Range| {
        let start = range.start.load(Ordering::Acquire);
        start <= address && address < range.end.load(Ordering::Acquire)
    };
    if let Some(range) = RANGES.iter().find(holds) {
        // SAFETY: `sysconf` and `mmap` are system calls without locks here. The pages belong to a
        // read-only mapping that is in use (see above); they stay mapped and readable, so no
        // reference into them dangles. Their bytes change from unreadable to zeros.
        let replaced = unsafe {
            let page = usize::try_from(libc::sysconf(libc::_SC_PAGESIZE)).unwrap_or(4096);
            let first = address & !(page - 1);
            let length = range.end.load(Ordering::Acquire) - first;
            let flags = libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(first as *mut _, length, libc::PROT_READ, flags, -1, 0)
        };
        if replaced != libc::MAP_FAILED {
            range.cut.store(true, Ordering::Release);
            return;
        }
    }
    // SAFETY: restores the default action, so that the read that is repeated now ends the program.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

#[cfg(test)]
mod tests {
    use super::super::Mapping;

    /// A file is cut while it is mapped: what is left is read, the rest is zeros, and is marked.
    #[test]
    fn a_cut_file_is_noticed_and_does_not_end_the_process() {
        super::install().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("a"), dir.path().join("b"));
        fs_err::write(&path, vec![7; 100_000]).unwrap();
        fs_err::write(&other, vec![8; 100_000]).unwrap();
        let (map, sound) = (Mapping::open(&path).unwrap(), Mapping::open(&other).unwrap());
        assert!(map.iter().all(|&byte| byte == 7) && map.check().is_ok());
        let file = fs_err::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(10_000).unwrap();
        assert_eq!(map[5_000], 7);
        assert!(map.check().is_ok(), "nothing was read behind the end");
        assert_eq!((map[50_000], map[99_999]), (0, 0));
        let err = map.check().unwrap_err().to_string();
        assert!(err.contains("shortened while it was in use"), "{err}");
        assert!(sound.check().is_ok() && sound[99_999] == 8);
        drop(map);
        // the place in the list is used again
        assert!(Mapping::open(&other).unwrap().check().is_ok());
    }
}
