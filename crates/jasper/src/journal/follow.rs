//! An index that follows a durable one, which another process changes.

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use jasper_core::sync::lock;

use super::folder::find_snapshot;
use super::log::Log;
use super::segment::Folder;
use super::store::SnapshotId;
use super::{JournalError, JournalFault, check_durable, check_snapshot, legacy_log, record};
use crate::inner::IndexInner;

/// How long a follower waits between two looks at the log, and at most after several that failed.
const PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(3);

/// The log of a folder that is about to be followed.
#[derive(Debug)]
pub(crate) struct FollowedLog {
    folder: PathBuf,
    log: Log,
    snapshot: SnapshotId,
}

impl FollowedLog {
    pub(crate) fn open(folder: &Path) -> Result<Self, JournalError> {
        check_durable(folder)?;
        let open = || {
            if legacy_log(folder).is_some() {
                return Err(JournalFault::Unconverted);
            }
            let mut log = Log::new(Arc::new(Folder(folder.to_owned())));
            let snapshot = read_snapshot(folder, &mut log)?;
            Ok(Self { folder: folder.to_owned(), log, snapshot })
        };
        open().map_err(|fault| JournalError::new(folder, fault))
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The snapshot to open.
    pub(crate) fn snapshot(&self) -> Result<PathBuf, JournalError> {
        check_snapshot(&self.folder, self.snapshot).map_err(|fault| JournalError::new(&self.folder, fault))
    }

    /// Whether there is another snapshot now, so that the last one may have been removed.
    pub(crate) fn has_other_snapshot(&mut self) -> Result<bool, JournalError> {
        let before = self.snapshot;
        let read = read_snapshot(&self.folder, &mut self.log);
        self.snapshot = read.map_err(|fault| JournalError::new(&self.folder, fault))?;
        Ok(before != self.snapshot)
    }

    /// Follows from now on. `index` was opened from the snapshot, and accepts no change but those of the log.
    pub(crate) fn follow(mut self, index: IndexInner) -> Result<Follower, JournalError> {
        self.log.remove_below(self.snapshot.number);
        let mut following = Following { folder: self.folder, log: self.log, index };
        following.catch_up()?;
        Ok(following.start())
    }
}

fn read_snapshot(folder: &Path, log: &mut Log) -> Result<SnapshotId, JournalFault> {
    log.read_on()?;
    Ok(find_snapshot(folder, log)?)
}

/// Makes the changes of a log in an index, again and again, on a thread of its own.
pub(crate) struct Follower {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    /// `None` when it has stopped.
    following: Mutex<Option<Following>>,
    is_stopping: Mutex<bool>,
    stopping: Condvar,
}

struct Following {
    folder: PathBuf,
    log: Log,
    index: IndexInner,
}

/// A follower without its index.
#[derive(Debug)]
pub(crate) struct StoppedFollower {
    folder: PathBuf,
    log: Log,
}

impl StoppedFollower {
    /// Follows again, in an index with the same content.
    pub(crate) fn resume(self, index: IndexInner) -> Follower {
        Following { folder: self.folder, log: self.log, index }.start()
    }
}

impl Following {
    /// Makes the changes that have ended since the last call. Returns their number.
    fn catch_up(&mut self) -> Result<usize, JournalError> {
        let Self { folder, log, index } = self;
        let mut made = 0;
        let mut catch_up = || -> Result<(), JournalFault> {
            log.read_on()?;
            let ended = log.ended();
            for number in log.numbers().into_iter().take_while(|&number| number < ended) {
                // Refusals as well: the followed index has made all that the log does not say to have failed.
                record::replay(index, log, number).map_err(JournalFault::Replay)?;
                log.remove_below(number + 1);
                made += 1;
            }
            Ok(())
        };
        match catch_up() {
            Ok(()) => Ok(made),
            Err(JournalFault::Journal(error)) if error.kind() == io::ErrorKind::NotFound => {
                Err(JournalError::new(folder, JournalFault::Behind))
            }
            Err(fault) => Err(JournalError::new(folder, fault)),
        }
    }

    fn start(self) -> Follower {
        let shared = Arc::new(Shared {
            following: Mutex::new(Some(self)),
            is_stopping: Mutex::new(false),
            stopping: Condvar::new(),
        });
        let run = {
            let shared = Arc::clone(&shared);
            move || shared.run()
        };
        // If the system refuses a thread, the calls that catch up do its work.
        let thread = thread::Builder::new().name("jasper-follower".into()).spawn(run).ok();
        Follower { shared, thread }
    }
}

impl Shared {
    fn run(&self) {
        let mut pause = PAUSE;
        loop {
            let is_running = |is_stopping: &mut bool| !*is_stopping;
            let waited = self.stopping.wait_timeout_while(lock(&self.is_stopping), pause, is_running);
            if *waited.unwrap_or_else(PoisonError::into_inner).0 {
                return;
            }
            if let Some(following) = &mut *lock(&self.following) {
                // An error, or a panic, is that of the next call that catches up, if it lasts.
                let caught_up = catch_unwind(AssertUnwindSafe(|| following.catch_up()));
                pause = if matches!(caught_up, Ok(Ok(_))) { PAUSE } else { MAX_PAUSE.min(pause * 2) };
            }
        }
    }
}

impl Follower {
    /// Makes the changes that have ended, and that the thread has not made. Returns their number.
    pub(crate) fn catch_up(&self) -> Result<usize, JournalError> {
        lock(&self.shared.following).as_mut().map_or(Ok(0), Following::catch_up)
    }

    /// Ends the thread, and drops its index.
    pub(crate) fn stop(mut self) -> Option<StoppedFollower> {
        self.end_thread();
        let Following { folder, log, .. } = lock(&self.shared.following).take()?;
        Some(StoppedFollower { folder, log })
    }

    fn end_thread(&mut self) {
        *lock(&self.shared.is_stopping) = true;
        self.shared.stopping.notify_all();
        if let Some(thread) = self.thread.take() {
            // It does not panic.
            let _ = thread.join();
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.end_thread();
    }
}

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follower").finish_non_exhaustive()
    }
}
