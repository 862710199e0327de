//! What guests are made of: the kernel and the tools of two packages of Debian, fetched once and kept under the target folder.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The packages. What else a guest needs is on the machine on which the tests run.
const PACKAGES: [&str; 2] = ["user-mode-linux", "busybox-static"];
/// Kinds of links that the kernel has as modules.
const MODULES: [&str; 5] = ["sch_netem", "sch_tbf", "sch_htb", "sch_prio", "cls_u32"];
/// How long fetching may take, in seconds.
const PATIENCE: &str = "120";

/// What a guest starts from.
#[derive(Clone)]
pub struct Packages {
    pub kernel: PathBuf,
    pub root: PathBuf,
}

impl Packages {
    /// Fetches what is not there yet. An error says why guests cannot run here.
    pub fn ready() -> Result<Packages, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("guests need a network namespace, which only root may make".to_owned());
        }
        for tool in ["ip", "tc", "dpkg-deb", "apt-get", "timeout"] {
            run(Command::new("which").arg(tool))
                .map_err(|_| format!("there is no `{tool}` on this machine"))?;
        }
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guests");
        std::fs::create_dir_all(&folder)
            .map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        // Tests of several binaries may want it at once.
        let lock = File::create(folder.join("lock")).map_err(|error| error.to_string())?;
        lock.lock().map_err(|error| error.to_string())?;
        let packages =
            Packages { kernel: folder.join("root/usr/bin/linux.uml"), root: folder.join("root.img") };
        if !packages.kernel.exists() {
            fetch(&folder)?;
        }
        // Made anew each time, since this file says what is in it.
        pack(&folder, &packages.root)?;
        Ok(packages)
    }
}

/// Fetches the packages and unpacks them. Nothing is installed.
fn fetch(folder: &Path) -> Result<(), String> {
    let (debs, unpacked) = (folder.join("debs"), folder.join("unpacked"));
    for folder in [&debs, &unpacked] {
        let _ = std::fs::remove_dir_all(folder);
        std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    }
    let apt = |words: &[&str]| {
        run(Command::new("timeout").args([PATIENCE, "apt-get", "-qq"]).args(words).current_dir(&debs))
    };
    let download = || apt(&[&["download"][..], &PACKAGES].concat());
    // The lists of what there is may be old, or not there at all.
    download()
        .or_else(|_| apt(&["update"]).and_then(|()| download()))
        .map_err(|error| format!("{} cannot be fetched with apt-get: {error}", PACKAGES.join(" and ")))?;
    for deb in std::fs::read_dir(&debs).map_err(|error| error.to_string())?.filter_map(Result::ok) {
        run(Command::new("dpkg-deb").arg("-x").arg(deb.path()).arg(&unpacked))?;
    }
    // What is there under this name is complete.
    std::fs::rename(&unpacked, folder.join("root")).map_err(|error| error.to_string())
}

/// Makes a guest's first file system.
fn pack(folder: &Path, image: &Path) -> Result<(), String> {
    let script = r#"
set -e; cd "$1"; rm -rf first; mkdir -p first/bin first/modules; cp root/bin/busybox first/bin/
cd first; for folder in dev proc sys tmp host lab root etc; do mkdir $folder; done
for module in $3; do find ../root/usr/lib/uml -name $module.ko -exec cp {} modules/ \; ; done
printf %s "$4" > init; chmod 755 init
find . | bin/busybox cpio -o -H newc 2>/dev/null > "$2.new"; mv "$2.new" "$2""#;
    let mut command = Command::new("sh");
    command
        .args(["-c", script, "sh"])
        .arg(folder)
        .arg(image)
        .arg(MODULES.join(" "))
        .arg(include_str!("init.sh"));
    run(&mut command)
}

/// Runs a command that must succeed. An error is what it complained of.
fn run(command: &mut Command) -> Result<(), String> {
    let done = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    Err(if said.is_empty() { format!("it ended with {}", done.status) } else { said })
}
