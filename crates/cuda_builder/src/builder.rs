//! The options and steps of a build.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::bounds;
use crate::compiler::{Compiler, Compilers};
use crate::entries::entries;
use crate::error::BuildError;
use crate::flags::{ARCH, BuildFlags, PROFILE, TARGET};
use crate::header::{Difference, Header};
use crate::sources::{Source, listed};
use crate::violation::violations;

/// Compiles one crate of kernels. See the [crate docs](crate).
#[derive(Clone, Debug)]
pub struct CudaBuilder {
    package: PathBuf,
    flags: BuildFlags,
    compiler: Option<Compiler>,
    canary: Option<String>,
    target_dir: Option<PathBuf>,
}

/// The result of a build.
#[derive(Clone, Debug)]
pub struct BuildOutput {
    /// The PTX, with its header.
    pub ptx: String,
    /// Compiler, flags and sources.
    pub header: Header,
    /// Entry names of the kernels, in the order of the PTX.
    pub kernels: Vec<String>,
}

impl CudaBuilder {
    /// Compiles the crate in the folder `package`: a library, `no_std` on the device, that exports its kernels.
    pub fn new(package: impl Into<PathBuf>) -> Self {
        Self {
            package: package.into(),
            flags: BuildFlags::default(),
            compiler: None,
            canary: None,
            target_dir: None,
        }
    }

    /// Enables a feature of the crate.
    #[must_use]
    pub fn feature(mut self, feature: impl Into<String>) -> Self {
        self.flags.features.push(feature.into());
        self
    }

    /// Adds line information for profilers and memory checkers. Such PTX runs at full speed, but contains paths of this
    /// machine.
    #[must_use]
    pub fn generate_line_info(mut self, line_info: bool) -> Self {
        self.flags.line_info = line_info;
        self
    }

    /// Sets the compiler. Default: the first of [`Compilers::find`].
    #[must_use]
    pub fn compiler(mut self, compiler: Compiler) -> Self {
        self.compiler = Some(compiler);
        self
    }

    /// Names a kernel of the form *if c { write }; barrier; if c { write }*. The build is refused unless its PTX has
    /// exactly one barrier: compilers have copied barriers into both branches, which hangs or corrupts on some
    /// launches.
    #[must_use]
    pub fn canary(mut self, kernel: impl Into<String>) -> Self {
        self.canary = Some(kernel.into());
        self
    }

    /// Where cargo builds; without a choice, `target/ptx` of the crate's workspace. The first build there takes most of
    /// a minute, for `core`; later ones a second or two.
    #[must_use]
    pub fn target_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.target_dir = Some(folder.into());
        self
    }

    /// Compiles, inserts launch bounds, checks the PTX and writes the header. Output of cargo goes to standard error.
    ///
    /// # Errors
    /// When there is no compiler, the crate does not compile, the PTX is refused
    /// ([`PtxViolation`](crate::PtxViolation)), or files cannot be read.
    pub fn build(&self) -> Result<BuildOutput, BuildError> {
        let compiler = match &self.compiler {
            Some(chosen) => chosen.clone(),
            None => Compilers::find().first()?.clone(),
        };
        let root = self.root()?;
        let folder = self.folder(&root, &compiler);
        let release = folder.join(TARGET).join("release");
        // Of another crate, or of this one before.
        for old in [with_extension(&release.join("deps"), "s")?, with_extension(&release, "d")?].concat() {
            fs::remove_file(&old).map_err(at(&old))?;
        }
        self.compile(&compiler, &folder)?;
        let ptx = bounds::insert(&read(&assembly(&release.join("deps"))?)?)?;
        let ptx = without_function_numbers(&without_comments(&ptx));
        let violations = violations(&ptx, self.canary.as_deref());
        if !violations.is_empty() {
            return Err(BuildError::Refused { violations });
        }
        let header = Header {
            compiler: compiler.version,
            flags: self.flags.to_string(),
            sources: sources(&release, &root)?,
        };
        let ptx = format!("{header}{ptx}");
        let lines: Vec<&str> = ptx.lines().collect();
        let kernels = entries(&lines).into_iter().map(|entry| entry.name.to_owned()).collect();
        Ok(BuildOutput { kernels, header, ptx })
    }

    /// Differences since `ptx` was built: files, flags, features. Empty if a build with the same compiler would give
    /// the same bytes. Needs no device compiler.
    ///
    /// # Errors
    /// When `ptx` has no header, or the crate is in no workspace.
    pub fn differences(&self, ptx: &str) -> Result<Vec<Difference>, BuildError> {
        Ok(Header::read(ptx)?.differences(&self.flags.to_string(), &self.root()?))
    }

    /// The folder of the workspace that the crate is in.
    fn root(&self) -> Result<PathBuf, BuildError> {
        let mut locate = self.cargo();
        locate.args(["locate-project", "--workspace", "--message-format", "plain"]).stderr(Stdio::inherit());
        let output = locate.output().map_err(starting(&locate))?;
        if !output.status.success() {
            return Err(self.failed(output.status));
        }
        let manifest = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        Ok(manifest.parent().unwrap_or(Path::new("")).to_path_buf())
    }

    /// One folder for each compiler and set of flags, so that neither builds `core` again for the other.
    fn folder(&self, root: &Path, compiler: &Compiler) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        (self.flags.flags(), &compiler.version).hash(&mut hasher);
        let folder = self.target_dir.clone().unwrap_or_else(|| root.join("target/ptx"));
        folder.join(format!("{}-{:016x}", ARCH, hasher.finish()))
    }

    fn compile(&self, compiler: &Compiler, folder: &Path) -> Result<(), BuildError> {
        let mut cargo = self.cargo();
        cargo
            .args(["rustc", "--quiet", "--release", "--lib", "--crate-type", "cdylib", "-Zbuild-std=core"])
            .args(["--target", TARGET, "--features", &self.flags.features.join(",")])
            .arg("--target-dir")
            .arg(folder)
            .args(["--", "--emit=asm"])
            .envs(PROFILE)
            .env("RUSTC", &compiler.rustc)
            // Lets a stable compiler take the unstable flags and features.
            .env("RUSTC_BOOTSTRAP", "1")
            .env("CARGO_ENCODED_RUSTFLAGS", self.flags.flags().join("\x1f"))
            .env_remove("RUSTC_WRAPPER")
            .env_remove("RUSTC_WORKSPACE_WRAPPER")
            .env_remove("RUSTUP_TOOLCHAIN");
        let status = cargo.status().map_err(starting(&cargo))?;
        if status.success() { Ok(()) } else { Err(self.failed(status)) }
    }

    /// The cargo that runs this program, or the one on the search path, in the folder of the crate. Any recent one will
    /// do: the compiler alone decides the bytes.
    fn cargo(&self) -> Command {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(&self.package);
        cargo
    }

    fn failed(&self, status: std::process::ExitStatus) -> BuildError {
        BuildError::Cargo { package: self.package.clone(), status }
    }
}

/// The text without lines that are nothing but a comment: LLVM puts one before and after each piece of inline assembly,
/// a quarter of all.
fn without_comments(ptx: &str) -> String {
    ptx.lines().filter(|line| !line.trim_start().starts_with("//")).flat_map(|line| [line, "\n"]).collect()
}

/// The text with labels `$L__BB_3` in place of `$L__BB155_3`: labels are local to a kernel, and its text must not
/// depend on how many kernels come before it.
fn without_function_numbers(ptx: &str) -> String {
    const LABEL: &str = "$L__BB";
    let mut parts = ptx.split(LABEL);
    let first = parts.next().unwrap_or_default();
    let rest = parts.flat_map(|part| [LABEL, part.trim_start_matches(|c: char| c.is_ascii_digit())]);
    std::iter::once(first).chain(rest).collect()
}

/// The one PTX in `folder`.
fn assembly(folder: &Path) -> Result<PathBuf, BuildError> {
    let found = with_extension(folder, "s")?;
    match &found[..] {
        [file] => Ok(file.clone()),
        _ => Err(BuildError::Output { folder: folder.to_path_buf(), count: found.len() }),
    }
}

/// The files below `root` that the build in `release` read, by the lists that cargo leaves beside its output.
fn sources(release: &Path, root: &Path) -> Result<Vec<Source>, BuildError> {
    let mut files = Vec::new();
    for list in with_extension(release, "d")? {
        files.extend(listed(&read(&list)?, root));
    }
    files.iter().map(|file| Source::read(root, file).map_err(at(&root.join(file)))).collect()
}

/// The files in `folder` with this extension; none if there is no such folder.
fn with_extension(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, BuildError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(at(folder))?,
    };
    let files = entries.flatten().map(|entry| entry.path());
    Ok(files.filter(|file| file.extension().is_some_and(|its| its == extension)).collect())
}

fn read(file: &Path) -> Result<String, BuildError> {
    fs::read_to_string(file).map_err(at(file))
}

fn at(path: &Path) -> impl FnOnce(std::io::Error) -> BuildError {
    let path = path.to_path_buf();
    |source| BuildError::Io { path, source }
}

fn starting(command: &Command) -> impl FnOnce(std::io::Error) -> BuildError {
    let program = command.get_program().to_string_lossy().into_owned();
    |source| BuildError::Start { program, source }
}
