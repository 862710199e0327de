//! `verge kv secrets`: the keys of all links.

use config::KvConfig;
use console::{Outcome, Trouble, line, yes};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

pub fn run(config: &KvConfig, folder: &Path) -> Outcome {
    std::fs::create_dir_all(folder)
        .map_err(|error| Trouble(format!("cannot make the folder {}: {error}", folder.display())))?;
    let names = config.names();
    let mut refused = None;
    let files = kv_host::secrets::generate(&names, |key| {
        refused = refused.take().or(host::fill_random(key).err());
    });
    if let Some(error) = refused {
        return Err(Trouble(format!("the host has no random numbers: {error}")));
    }
    for (name, text) in files {
        let path = folder.join(format!("{name}.kv-keys"));
        let unwritable =
            |error| Trouble(format!("cannot write {}: {error}; remove old keys first", path.display()));
        // Nobody else may read it, from the first moment on; and keys in use are not overwritten by mistake.
        let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(unwritable)?;
        line(&format!(
            "{}: copy it to the host of node {name}, and set kv.nodes.{name}.secrets",
            path.display()
        ))?;
    }
    Ok(yes(true))
}
