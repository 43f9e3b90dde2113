//! A process that is ending. Nothing else can be tested in the same process.

use std::fs;

use jasper_data::{AtomicFile, FileLock, remove_temporary_files};

#[test]
fn an_ending_process_removes_its_files_and_not_those_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let (file, lock) = (AtomicFile::create(&path).unwrap(), FileLock::try_acquire(&path).unwrap());
    remove_temporary_files();
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    AtomicFile::create(&path).unwrap_err();
    FileLock::try_acquire(&path).unwrap_err();
    // Another process takes the lock, and this one has yet to end.
    fs::write(folder.path().join(".file.lock"), "").unwrap();
    drop((file, lock));
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
}
