//! What commands do to files: two at once, outputs that are inputs, pipes, interrupts, and exit codes.

use std::fs::{self, File};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Sandbox, all_fail, interruptible};

fn start(sandbox: &Sandbox, arguments: &[&str], stdout: impl Into<Stdio>) -> Child {
    let mut command = interruptible();
    command
        .current_dir(sandbox.folder())
        .args(arguments)
        .stdout(stdout)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn file_names(sandbox: &Sandbox) -> Vec<String> {
    let entries = fs::read_dir(sandbox.folder()).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn commands_that_change_one_index_wait_for_each_other() {
    let sandbox = Sandbox::with_index();
    let mut expected = 400;
    for round in 0..3 {
        let inserts = [0, 1, 2].map(|i| {
            let (base, keys) = (format!("{i}.fbin"), format!("{i}.txt"));
            let first = 1000 + 100 * (3 * round + i);
            sandbox.vectors::<f32>(&base, 20, 10 + first);
            sandbox.write(&keys, (first..first + 20).map(|key| format!("{key}\n")).collect::<String>());
            start(&sandbox, &["insert", "vectors.jasper", "--base", &base, "--keys", &keys], Stdio::null())
        });
        assert!(
            inserts.map(|child| child.wait_with_output().unwrap()).iter().all(|out| out.status.success())
        );
        expected += 60;
        assert_eq!(sandbox.one(&["info", "vectors.jasper"])["vectors"], expected);
    }
    assert!(file_names(&sandbox).iter().all(|name| !name.starts_with('.')), "{:?}", file_names(&sandbox));
}

#[test]
fn outputs_replace_neither_inputs_nor_files_of_another_kind() {
    let sandbox = Sandbox::with_index();
    sandbox.write("gone.txt", "1\n");
    sandbox.write("notes", "mine");
    sandbox.ok(&["convert", "base.fbin", "base.npy"]);
    sandbox.ok(&["runbook", "replace", "--rows", "400", "--rounds", "2", "--output", "r.yaml"]);
    let (input, other) = ("is also read by this command", "remove it first, or write to another file");
    let stream = "stream r.yaml --base base.fbin --queries query.fbin --metric l2 --output";
    let [onto_base, onto_runbook, twice] =
        ["base.fbin", "r.yaml", "x --plot ./x"].map(|name| format!("{stream} {name}"));
    all_fail(
        &sandbox,
        1,
        &[
            ("build --base base.fbin --metric l2 --output base.fbin", &["base.fbin", input]),
            (
                "build --base base.fbin --metric l2 --output query.fbin",
                &["query.fbin", "is not an index", other],
            ),
            ("build --base base.fbin --metric l2 --output notes", &["is not an index", other]),
            ("build --base base.fbin --metric l2 --output gt.ibin", &["is not an index", other]),
            ("eval vectors.jasper --queries query.fbin --truth gt.ibin --plot vectors.jasper", &[input]),
            ("eval vectors.jasper --queries query.fbin --truth gt.ibin --plot notes", &["is not a plot"]),
            ("convert base.fbin base.fbin --to u8bin", &[input]),
            ("convert base.fbin query.fbin --to u8bin", &["is not a file of u8bin vectors"]),
            ("convert vectors.jasper query.fbin --to hnswlib", &["is not a hnswlib graph"]),
            ("convert vectors.jasper x --to diskann --keys base.fbin", &["is not a file of keys"]),
            ("delete vectors.jasper --keys gone.txt --output gone.txt", &["gone.txt", input]),
            ("insert vectors.jasper --base base.fbin --output base.fbin", &[input]),
            (
                "runbook replace --rows 400 --output base.fbin",
                &["base.fbin: exists and is not a runbook", other],
            ),
            ("runbook replace --rows 400 --output vectors.jasper", &["is not a runbook"]),
            ("search vectors.jasper --queries query.fbin --output query.fbin", &[input]),
            (
                "search vectors.jasper --queries query.fbin --output base.fbin",
                &["not a file of true neighbors"],
            ),
            ("groundtruth --base base.fbin --queries query.fbin --metric l2 --output base.fbin", &[input]),
            (
                "convert vectors.jasper x --to diskann --keys notes",
                &["notes: exists and is not a file of keys"],
            ),
            ("convert vectors.jasper x --to diskann --keys base.npy", &["is not a file of keys"]),
            (&onto_base, &[input]),
            (&onto_runbook, &[input]),
            (&twice, &["two outputs"]),
        ],
    );
    // Older outputs of the same kind may be replaced.
    sandbox.ok(&["runbook", "replace", "--rows", "400", "--output", "r.yaml"]);
    sandbox.ok(&["build", "--base", "base.fbin", "--metric", "l2", "--output", "vectors.jasper"]);
    sandbox.ok(&["search", "vectors.jasper", "--queries", "query.fbin", "--output", "gt.ibin"]);
    sandbox.ok(&["compact", "vectors.jasper", "--output", "vectors.jasper"]);
    for _ in 0..2 {
        sandbox.ok(&["convert", "vectors.jasper", "x", "--to", "diskann", "--keys", "keys.npy"]);
    }
}

/// The formats without a mark at their beginning, and those whose names say nothing.
#[test]
fn graphs_and_runbooks_replace_only_their_kind() {
    let sandbox = Sandbox::with_index();
    let export = |format, output| ["convert", "vectors.jasper", output, "--to", format];
    let runbook = ["runbook", "replace", "--rows", "400", "--output"];
    let graphs = ["diskann", "hnswlib", "faiss"];
    for format in graphs {
        for _ in 0..2 {
            sandbox.ok(&export(format, format));
        }
        sandbox.write("empty", "");
        sandbox.ok(&export(format, "empty"));
    }
    for _ in 0..2 {
        sandbox.ok(&[&runbook[..], &["r.yaml"]].concat());
    }
    sandbox.write("photo.jpg", [b"\xff\xd8\xff\xe0\0\x10JFIF\0", &[7; 5000][..]].concat());
    sandbox.write("zeros", [0; 5000]);
    sandbox.write("library.so", [b"\x7fELF\x02\x01\x01\0", &[0; 5000][..]].concat());
    sandbox.write("keys.txt", "1\n2\n");
    sandbox.write("table.csv", "a,b\n1,2\n");
    sandbox.write("other.yaml", "services:\n  db: {image: postgres}\n");
    sandbox.write("notes", "JASPER is a gem");
    let names =
        ["photo.jpg", "zeros", "library.so", "keys.txt", "table.csv", "other.yaml", "notes", "r.yaml"];
    for name in [&names[..], &graphs, &["vectors.jasper", "gt.ibin"]].concat() {
        for format in graphs.into_iter().filter(|&format| format != name) {
            let error = sandbox.fails(1, &export(format, name));
            let is_input = name == "vectors.jasper";
            let reason = if is_input { "is also read" } else { "remove it first, or write to another file" };
            assert!(error.contains(name) && error.contains(reason), "{error}");
        }
        if name != "r.yaml" {
            let error = sandbox.fails(1, &[&runbook[..], &[name]].concat());
            assert!(error.contains(&format!("{name}: exists and is not a runbook; remove it")), "{error}");
        }
    }
    let error = sandbox.fails(1, &["compact", "vectors.jasper", "--output", "notes"]);
    assert!(error.contains("notes: exists and is not an index"), "{error}");
    sandbox.write("x.data", "mine");
    let error = sandbox.fails(1, &export("diskann", "x"));
    assert!(error.contains("x.data: exists and is not a file of vectors of DiskANN"), "{error}");
}

/// Commands remove these files, where they are those of other commands.
#[test]
fn files_with_the_names_of_hidden_files_stay() {
    let sandbox = Sandbox::with_index();
    sandbox.write(".vectors.jasper.lock", "1\n");
    let lock = "vectors.jasper: its lock would be the file";
    all_fail(
        &sandbox,
        1,
        &[
            (
                "delete vectors.jasper --keys .vectors.jasper.lock",
                &[lock, ".lock, which is not empty", "rename"],
            ),
            ("compact vectors.jasper", &[lock]),
        ],
    );
    sandbox.write(".jasper-abc.tmp", "1\n");
    let temporary = ".jasper-abc.tmp: is named as the temporary files of this program";
    all_fail(
        &sandbox,
        1,
        &[
            ("delete vectors.jasper --output x --keys .jasper-abc.tmp", &[temporary]),
            ("build --base base.fbin --metric l2 --output .jasper-abc.tmp", &[temporary, "use another name"]),
        ],
    );
}

#[test]
fn an_index_to_change_is_no_output_to_replace() {
    let sandbox = Sandbox::with_index();
    let error = sandbox.fails(1, &["insert", "query.fbin", "--base", "base.fbin"]);
    assert!(error.contains("query.fbin") && !error.contains("remove it first"), "{error}");
    let error = sandbox.fails(1, &["compact", "folder/x.jasper"]);
    assert!(!error.contains("create it first"), "{error}");
}

#[test]
fn an_output_that_cannot_be_written_is_found_before_the_work() {
    let sandbox = Sandbox::with_index();
    // The base is refused as well, once it is read.
    sandbox.vectors::<u8>("bytes.u8bin", 20, 1);
    fs::create_dir(sandbox.path("folder")).unwrap();
    sandbox.write("folder/file", "");
    for (output, reason) in [("folder", "is a directory"), ("folder/file/x", "the directory does not exist")]
    {
        let error =
            sandbox.jasper(&["insert", "vectors.jasper", "--base", "bytes.u8bin", "--output", output]);
        let error = String::from_utf8(error.stderr).unwrap();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn files_of_a_folder_are_changed_through_the_folder() {
    let sandbox = Sandbox::with_index();
    let build = ["build", "--base", "base.fbin", "--metric", "l2", "--device", "cpu", "--output"];
    sandbox.ok(&[&build[..], &["durable", "--durable"]].concat());
    sandbox.ok(&[&build[..], &["sharded", "--shards", "2"]].concat());
    let refused: &[&str] = &["is in the folder of an index", "name the folder to change the index"];
    all_fail(
        &sandbox,
        1,
        &[
            ("tune durable --sample 4 --output durable/index-0.jasper", refused),
            ("insert durable/index-0.jasper --base query.fbin", refused),
            ("compact vectors.jasper --output durable/index-0.jasper", refused),
            ("build --base query.fbin --metric l2 --output durable/index-0.jasper", refused),
            ("convert vectors.jasper durable/journal-0.log --to hnswlib", refused),
            ("tune sharded/shard-0-0.jasper --sample 4", refused),
            ("runbook replace --rows 100 --output sharded/manifest.txt", refused),
        ],
    );
    for folder in ["durable", "sharded"] {
        assert_eq!(sandbox.one(&["check", folder])["sound"], true);
        std::os::unix::fs::symlink(folder, sandbox.path("link")).unwrap();
        let error = sandbox.fails(1, &["compact", "vectors.jasper", "--output", "link/index-0.jasper"]);
        assert!(error.contains(refused[0]), "{error}");
        fs::remove_file(sandbox.path("link")).unwrap();
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_found_before_the_build() {
    let sandbox = Sandbox::with_index();
    fs::create_dir(sandbox.path("full")).unwrap();
    sandbox.write("full/notes", "mine");
    // The base is refused as well, once it is read.
    sandbox.write("base.fbin", "damaged");
    for (output, reason) in [
        ("full", "full: is not empty; name a new folder"),
        ("full/notes", "is not empty; name a new folder"),
        ("missing/index", "missing/index: the directory does not exist; create it first"),
        ("full/notes/index", "full/notes/index: the directory does not exist; create it first"),
    ] {
        for kind in [&["--durable"][..], &["--shards", "2"]] {
            let build = ["build", "--base", "base.fbin", "--metric", "l2", "--output", output];
            let error = sandbox.fails(1, &[&build[..], kind].concat());
            assert!(error.contains(reason), "{error}");
        }
    }
}

#[test]
fn a_durable_index_may_have_shards() {
    let sandbox = Sandbox::with_index();
    let build =
        ["build", "--base", "base.fbin", "--metric", "l2", "--device", "cpu", "--durable", "--shards", "2"];
    let build = [&build[..], &["--output", "new"]].concat();
    sandbox.ok(&build);
    let error = sandbox.fails(1, &build);
    assert!(error.contains("new: has a durable index already"), "{error}");
    sandbox.ok(&["insert", "new", "--base", "query.fbin"]);
    assert_eq!(sandbox.one(&["check", "new"])["sound"], true);
    let infos = sandbox.ok(&["info", "new"]);
    assert!(infos.len() == 2 && infos.iter().all(|info| info["changes"] == 1), "{infos:?}");
    let inside = "new/index-0.jasper/shard-0-0.jasper";
    let error = sandbox.fails(1, &["compact", "vectors.jasper", "--output", inside]);
    assert!(error.contains("is in the folder of an index"), "{error}");
}

#[test]
fn commands_that_only_read_follow_an_index_that_is_open() {
    let sandbox = Sandbox::with_index();
    sandbox.ok(&[
        "build",
        "--base",
        "base.fbin",
        "--metric",
        "l2",
        "--device",
        "cpu",
        "--durable",
        "--output",
        "new",
    ]);
    let index = jasper::Index::open(sandbox.path("new")).unwrap();
    index.delete(&index.keys()).unwrap();
    assert_eq!(sandbox.one(&["check", "new"])["graph"]["keys"], 0);
    let error = sandbox.fails(1, &["insert", "new", "--base", "query.fbin"]);
    assert!(error.contains("is open already"), "{error}");
    drop(index);
    sandbox.ok(&["insert", "new", "--base", "query.fbin"]);
}

#[test]
fn a_durable_build_that_was_killed_is_repeated() {
    let sandbox = Sandbox::with_index();
    let build = ["build", "--base", "base.fbin", "--metric", "l2", "--durable", "--output", "folder"];
    fs::create_dir(sandbox.path("folder")).unwrap();
    for name in ["journal-0.log", "index-0.jasper", ".journal.lock", ".jasper-killed.tmp"] {
        sandbox.write(&format!("folder/{name}"), "");
        sandbox.ok(&build);
        assert_eq!(sandbox.one(&["check", "folder"])["sound"], true);
        let error = sandbox.fails(1, &build);
        assert!(error.contains("folder: has a durable index already"), "{error}");
        sandbox.write("folder/journal-0.log", "");
    }
    // Not unfinished without the empty journal, and not ours alone with other files.
    sandbox.write("folder/notes", "mine");
    assert!(sandbox.fails(1, &build).contains("folder: is not empty"));
    fs::remove_file(sandbox.path("folder/notes")).unwrap();
    fs::remove_file(sandbox.path("folder/journal-0.log")).unwrap();
    assert!(sandbox.fails(1, &build).contains("folder: is not empty"));
}

#[cfg(unix)]
mod unix {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn make_fifo(sandbox: &Sandbox, name: &str) {
        assert!(Command::new("mkfifo").arg(sandbox.path(name)).status().unwrap().success());
    }

    #[test]
    fn links_do_not_hide_that_an_output_is_an_input() {
        let sandbox = Sandbox::with_index();
        symlink("base.fbin", sandbox.path("soft.fbin")).unwrap();
        fs::hard_link(sandbox.path("base.fbin"), sandbox.path("hard.fbin")).unwrap();
        for output in ["soft.fbin", "hard.fbin"] {
            let error = sandbox.fails(1, &["convert", "base.fbin", output]);
            assert!(error.contains("is also read by this command, as base.fbin"), "{error}");
        }
    }

    #[test]
    fn links_to_new_files_do_not_hide_that_two_outputs_are_one() {
        let sandbox = Sandbox::with_index();
        fs::create_dir(sandbox.path("sub")).unwrap();
        symlink("new.txt", sandbox.path("link")).unwrap();
        symlink("../new.txt", sandbox.path("sub/link")).unwrap();
        for output in ["link", "sub/link"] {
            for [graph, keys] in [[output, "new.txt"], ["new.txt", output]] {
                let export = ["convert", "vectors.jasper", graph, "--to", "hnswlib", "--keys", keys];
                let output = sandbox.jasper(&export);
                let error = String::from_utf8(output.stderr).unwrap();
                assert_eq!(output.status.code(), Some(1));
                assert!(error.contains("is named for two outputs of this command"), "{error}");
            }
        }
        assert!(!sandbox.path("new.txt").exists());
    }

    #[test]
    fn devices_and_read_only_files_are_not_replaced() {
        let sandbox = Sandbox::with_index();
        fs::set_permissions(sandbox.path("vectors.jasper"), PermissionsExt::from_mode(0o444)).unwrap();
        all_fail(
            &sandbox,
            1,
            &[
                ("insert vectors.jasper --base query.fbin", &["vectors.jasper", "is read-only"]),
                ("tune vectors.jasper", &["vectors.jasper", "is read-only"]),
                ("convert base.fbin /dev/null --to npy", &["/dev/null", "is a pipe or a device"]),
            ],
        );
    }

    #[test]
    fn keys_come_from_pipes_and_vectors_do_not() {
        let sandbox = Sandbox::with_index();
        let with_stdin = |arguments: &[&str], input: String| {
            let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_jasper"));
            command.current_dir(sandbox.folder()).timeout(Duration::from_secs(60));
            command.args(arguments).write_stdin(input).output().unwrap()
        };
        let keys = |range: std::ops::Range<u32>| range.map(|key| format!("{key}\n")).collect::<String>();
        let delete = ["delete", "vectors.jasper", "--keys", "/dev/stdin", "--json"];
        let output = with_stdin(&delete, keys(0..10));
        assert!(output.status.success(), "{output:?}");
        assert_eq!(sandbox.one(&["info", "vectors.jasper"])["deleted"], 10);
        let search =
            ["search", "vectors.jasper", "--queries", "query.fbin", "-k", "3", "--filter", "/dev/stdin"];
        let output = with_stdin(&search, keys(20..23));
        let first: serde_json::Value =
            serde_json::from_slice(output.stdout.split(|&byte| byte == b'\n').next().unwrap()).unwrap();
        let mut found: Vec<u64> = serde_json::from_value(first["keys"].clone()).unwrap();
        found.sort_unstable();
        assert_eq!(found, [20, 21, 22]);

        // It has no end, and its length is 0.
        let error = sandbox.fails(1, &["delete", "vectors.jasper", "--keys", "/dev/zero"]);
        assert!(error.contains("/dev/zero: line 1: a byte is no digit"), "{error}");

        // Nothing writes to it: opening it would not return.
        make_fifo(&sandbox, "fifo");
        for arguments in [
            &["build", "--base", "/dev/stdin", "--metric", "l2", "--output", "x"][..],
            &["build", "--base", "fifo", "--metric", "l2", "--output", "x"],
            &["info", "fifo"],
            &["check", "fifo"],
            &["search", "fifo", "--queries", "query.fbin"],
            &["search", "vectors.jasper", "--queries", "fifo"],
            &["eval", "vectors.jasper", "--queries", "query.fbin", "--truth", "fifo"],
            &["insert", "fifo", "--base", "query.fbin"],
        ] {
            let output = with_stdin(arguments, String::new());
            let error = String::from_utf8(output.stderr).unwrap();
            assert!(
                output.status.code() == Some(1) && error.contains("is a pipe or a device"),
                "{arguments:?}: {error}"
            );
        }
    }

    #[test]
    fn a_report_that_cannot_be_written_does_not_say_that_nothing_changed() {
        let sandbox = Sandbox::with_index();
        sandbox.ok(&["runbook", "replace", "--rows", "400", "--rounds", "2", "--output", "r.yaml"]);
        if cfg!(target_os = "linux") {
            let full = File::options().write(true).open("/dev/full").unwrap();
            let output = start(&sandbox, &["insert", "vectors.jasper", "--base", "query.fbin"], full);
            let output = output.wait_with_output().unwrap();
            let error = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(3), "{error}");
            assert!(error.contains("standard output cannot be written"), "{error}");
            assert_eq!(sandbox.one(&["info", "vectors.jasper"])["vectors"], 420);
            let full = File::options().write(true).open("/dev/full").unwrap();
            assert_eq!(start(&sandbox, &["--help"], full).wait().unwrap().code(), Some(3));
        }
        // Its reader goes at once.
        let stream = ["stream", "r.yaml", "--base", "base.fbin", "--queries", "query.fbin", "--metric", "l2"];
        let mut child =
            start(&sandbox, &[&stream[..], &["--json", "--output", "so.jasper"]].concat(), Stdio::piped());
        drop(child.stdout.take());
        assert_eq!(child.wait_with_output().unwrap().status.code(), Some(0));
        assert!(sandbox.path("so.jasper").is_file());
    }

    /// Some file systems store UTF-8 only.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_path_need_not_be_text() {
        let sandbox = Sandbox::with_index();
        let name = OsStr::from_bytes(b"not\xfftext.jasper");
        let mut command = Command::new(env!("CARGO_BIN_EXE_jasper"));
        command
            .current_dir(sandbox.folder())
            .args(["compact", "vectors.jasper", "--json", "--output"])
            .arg(name);
        assert!(command.output().unwrap().status.success());
        assert!(sandbox.folder().join(name).is_file());

        let [fbin, npy] = [&b"not\xfftext.fbin"[..], b"not\xfftext.npy"].map(OsStr::from_bytes);
        fs::copy(sandbox.path("base.fbin"), sandbox.folder().join(fbin)).unwrap();
        let mut convert = Command::new(env!("CARGO_BIN_EXE_jasper"));
        let converted =
            convert.current_dir(sandbox.folder()).arg("convert").args([fbin, npy]).output().unwrap();
        assert!(converted.status.success(), "{converted:?}");
        assert!(jasper_data::VectorFile::open(sandbox.folder().join(npy)).is_ok());
    }

    /// Starts a conversion of several gigabytes of zeros, which are not on the disk, and sends it a signal once it has a
    /// temporary file.
    fn end_convert(sandbox: &Sandbox, signal: &str) -> Option<i32> {
        let (rows, dimension) = (1_000_000_u32, 2000_u32);
        let file = File::create(sandbox.path("zeros.fbin")).unwrap();
        std::io::Write::write_all(&mut &file, &[rows.to_le_bytes(), dimension.to_le_bytes()].concat())
            .unwrap();
        file.set_len(8 + 4 * u64::from(rows) * u64::from(dimension)).unwrap();
        let others = temporary(sandbox);
        let mut child = start(sandbox, &["convert", "zeros.fbin", "zeros.npy"], Stdio::null());
        let begun = Instant::now();
        while temporary(sandbox) == others {
            assert!(begun.elapsed() < Duration::from_secs(60), "there is no temporary file");
            std::thread::sleep(Duration::from_millis(1));
        }
        let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        child.wait().unwrap().code()
    }

    fn temporary(sandbox: &Sandbox) -> Vec<String> {
        file_names(sandbox).into_iter().filter(|name| name.starts_with('.')).collect()
    }

    #[test]
    fn interrupts_leave_no_temporary_file_and_kills_until_the_next_command() {
        let sandbox = Sandbox::with_index();
        for signal in ["-INT", "-TERM", "-HUP"] {
            assert_eq!(end_convert(&sandbox, signal), Some(130));
            assert!(temporary(&sandbox).is_empty(), "{:?}", temporary(&sandbox));
        }
        assert_eq!(end_convert(&sandbox, "-KILL"), None);
        assert_eq!(temporary(&sandbox).len(), 1);
        // What a killed change leaves.
        sandbox.write(".vectors.jasper.lock", "");
        sandbox.ok(&["compact", "vectors.jasper"]);
        assert!(temporary(&sandbox).is_empty(), "{:?}", temporary(&sandbox));
    }
}
