//! The layers of a configuration: files, then the environment, then flags. The later wins, key by key.

use super::problems::{File, Problem, Problems, Source, Subject};
use super::schema::{self, KEYS, REPEATED, Repeated};
use super::value::Raw;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// A value with where it came from.
#[derive(Clone, PartialEq, Debug)]
pub struct Given {
    /// As it was written.
    pub raw: Raw,
    /// Where.
    pub source: Source,
}

/// One table of a section that may be there many times.
#[derive(Clone, Debug)]
pub struct Table {
    /// Where it is.
    pub place: Source,
    /// What is in it.
    pub keys: BTreeMap<String, Given>,
}

impl Table {
    /// The place of a key, or else of the table.
    pub fn place_of(&self, key: &str) -> Source {
        self.keys.get(key).map_or(&self.place, |given| &given.source).clone()
    }
}

/// What was given, before it is understood.
#[derive(Default)]
pub struct Layers {
    /// The files that were read.
    pub files: Vec<File>,
    /// What was given, by path.
    pub values: BTreeMap<String, Given>,
    /// The tables of `[[topic]]` and its like by section, in the order of the files.
    pub tables: BTreeMap<&'static str, Vec<Table>>,
    /// What is wrong so far.
    pub problems: Vec<Problem>,
}

/// The places where a configuration is looked for when none is named.
const USUAL_FILES: [&str; 2] = ["verge.toml", "/etc/verge/verge.toml"];
/// Environment variables begin with this; `VERGE_DETECTION__POLL` means `detection.poll`.
const PREFIX: &str = "VERGE_";
/// The largest file that is read.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The file that the user named, or the one in a usual place; `None` if there is none.
pub fn main_file(named: Option<&Path>) -> Option<PathBuf> {
    let usual = || USUAL_FILES.iter().map(PathBuf::from).find(|path| path.is_file());
    named.map(Path::to_path_buf).or_else(usual)
}

/// Reads all layers. `file` is the one that the user named, if any.
pub fn read(
    file: Option<&Path>,
    environment: impl Iterator<Item = (String, String)>,
    flags: &[String],
) -> Result<Layers, Problems> {
    let mut layers = Layers::default();
    if let Some(path) = main_file(file) {
        layers.read_file(&path)?;
        layers.read_fragments(&path)?;
    }
    for (name, text) in environment {
        let Some(rest) = name.strip_prefix(PREFIX).map(str::to_lowercase) else { continue };
        if rest.contains("__") {
            layers.take(rest.replace("__", "."), Raw::from_plain(&text), Source::Environment(name));
        } else if let Some(key) = KEYS.iter().find(|key| key.path.replace('.', "_") == rest) {
            layers.problems.push(Problem {
                message: format!("{name} sets nothing: two underscores stand for each dot of `{}`", key.path),
                remedy: format!("name it {PREFIX}{}", key.path.replace('.', "__").to_uppercase()),
                source: Source::Environment(name),
            });
        }
    }
    for flag in flags {
        match flag.split_once('=') {
            Some((path, text)) => {
                layers.take(path.trim().to_owned(), Raw::from_plain(text.trim()), Source::Flag(flag.clone()));
            }
            None => layers.problems.push(Problem {
                source: Source::Flag(flag.clone()),
                message: format!("`{flag}` sets nothing"),
                remedy: "write --set key=value, as in --set detection.poll=5ms".to_owned(),
            }),
        }
    }
    Ok(layers)
}

/// The text of a file, unless it is absurdly large.
pub fn read_text(path: &Path, subject: Subject) -> Result<String, Problems> {
    let unreadable = |error| Problems::unreadable(subject, path, &error);
    let mut bytes = Vec::new();
    // A pipe or a device does not say its length beforehand.
    let file = std::fs::File::open(path).map_err(unreadable)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(unreadable(std::io::Error::other(format!("larger than {FILE_BYTES_MAX} bytes"))));
    }
    String::from_utf8(bytes).map_err(|error| Problems::not_text(subject, path, &error))
}

impl Layers {
    /// Files of `conf.d` beside the main file, in the order of their names.
    fn read_fragments(&mut self, main: &Path) -> Result<(), Problems> {
        let folder = main.parent().unwrap_or(Path::new(".")).join("conf.d");
        let Ok(entries) = std::fs::read_dir(folder) else { return Ok(()) };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
        paths.sort();
        paths.iter().try_for_each(|path| self.read_file(path))
    }

    fn read_file(&mut self, path: &Path) -> Result<(), Problems> {
        let text = read_text(path, Subject::Configuration)?;
        let index = self.files.len();
        let (table, errors) = DeTable::parse_recoverable(&text);
        self.problems.extend(errors.iter().map(|error| Problem::not_toml(index, error)));
        self.read_table(index, "", table.get_ref());
        self.files.push(File { path: path.to_path_buf(), text });
        Ok(())
    }

    fn read_table(&mut self, file: usize, prefix: &str, table: &DeTable<'_>) {
        for (name, value) in table {
            let path = if prefix.is_empty() {
                name.get_ref().to_string()
            } else {
                format!("{prefix}.{}", name.get_ref())
            };
            let source = Source::File(file, name.span());
            match (schema::repeated(&path), value.get_ref()) {
                (Some(section), DeValue::Array(items)) => {
                    for item in items {
                        self.read_item(section, file, item.span(), item.get_ref());
                    }
                }
                (Some(_), _) => self.alone(&path, source),
                (None, DeValue::Table(inner)) if schema::find(&path).is_none() && is_section(&path) => {
                    self.read_table(file, &path, inner);
                }
                (None, value) if schema::find(&path).is_some() => {
                    let span = table
                        .get_key_value(name.get_ref().as_ref())
                        .map_or(name.span(), |(_, value)| value.span());
                    self.take(path, Raw::new(value), Source::File(file, span));
                }
                _ => self.unknown(&path, source),
            }
        }
    }

    fn read_item(
        &mut self,
        section: &'static Repeated,
        file: usize,
        span: std::ops::Range<usize>,
        item: &DeValue<'_>,
    ) {
        let place = Source::File(file, span);
        let Some(table) = item.as_table() else {
            self.alone(section.name, place);
            return;
        };
        let mut keys = BTreeMap::new();
        for (name, value) in table {
            let name_text: &str = name.get_ref();
            if section.open || section.keys.iter().any(|key| key.path == name_text) {
                let source = Source::File(file, value.span());
                keys.insert(name_text.to_owned(), Given { raw: Raw::new(value.get_ref()), source });
            } else {
                let known = section.keys.iter().map(|key| key.path);
                self.problems.push(unknown_problem(name_text, Source::File(file, name.span()), known));
            }
        }
        self.tables.entry(section.name).or_default().push(Table { place, keys });
    }

    /// Something else where a repeated section should be.
    fn alone(&mut self, section: &str, source: Source) {
        self.problems.push(Problem {
            source,
            message: format!("`{section}` must be a list of tables"),
            remedy: format!("write [[{section}]] on a line of its own, and its keys below"),
        });
    }

    fn take(&mut self, path: String, raw: Raw, source: Source) {
        if schema::find(&path).is_some() {
            self.values.insert(path, Given { raw, source });
        } else {
            self.unknown(&path, source);
        }
    }

    fn unknown(&mut self, path: &str, source: Source) {
        let mut sections: Vec<&str> = KEYS.iter().filter_map(|key| key.path.split('.').next()).collect();
        sections.dedup();
        sections.extend(REPEATED.iter().map(|section| section.name));
        let last = path.rsplit('.').next().unwrap_or(path);
        let parent = path.strip_suffix(last).unwrap_or("");
        let siblings = KEYS.iter().filter_map(|key| {
            let (section, name) = key.path.rsplit_once('.')?;
            let same = schema::matches(section, parent.trim_end_matches('.'));
            same.then_some(name)
        });
        let known: Vec<&str> = if parent.is_empty() { sections } else { siblings.collect() };
        self.problems.push(unknown_problem(path, source, known));
    }
}

/// A key that does not exist, with the one that was probably meant.
pub fn unknown_problem<'a>(path: &str, source: Source, known: impl IntoIterator<Item = &'a str>) -> Problem {
    let known: Vec<&str> = known.into_iter().collect();
    let last = path.rsplit('.').next().unwrap_or(path);
    let remedy = match schema::nearest(last, known.iter().copied()) {
        Some(near) if near == last => format!("that is a section: its keys stand below [{near}]"),
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => "there is no such section; see `verge config default`".to_owned(),
        None => format!("known here: {}", known.join(", ")),
    };
    Problem { source, message: format!("unknown key `{path}`"), remedy }
}

/// Whether keys may be below this path.
fn is_section(path: &str) -> bool {
    let depth = path.split('.').count();
    KEYS.iter().any(|key| {
        let section: Vec<&str> = key.path.split('.').take(depth).collect();
        key.path.split('.').count() > depth && schema::matches(&section.join("."), path)
    })
}
