//! The words, values and signs of a condition.

use super::language::ConditionError;
use std::fmt;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sign {
    Less,
    AtMost,
    Greater,
    AtLeast,
    Equal,
    Unequal,
    And,
    Or,
    Not,
    Plus,
    Minus,
    Times,
    Over,
    Question,
    Colon,
    Comma,
    Dot,
    OpensRound,
    ClosesRound,
    Opens,
    Closes,
}

/// Signs as they are written, longer ones first.
const SIGNS: [(&str, Sign); 23] = [
    ("<=", Sign::AtMost),
    (">=", Sign::AtLeast),
    ("==", Sign::Equal),
    ("!=", Sign::Unequal),
    ("<>", Sign::Unequal),
    ("&&", Sign::And),
    ("||", Sign::Or),
    ("<", Sign::Less),
    (">", Sign::Greater),
    ("=", Sign::Equal),
    ("!", Sign::Not),
    ("+", Sign::Plus),
    ("-", Sign::Minus),
    ("*", Sign::Times),
    ("/", Sign::Over),
    ("?", Sign::Question),
    (":", Sign::Colon),
    (",", Sign::Comma),
    (".", Sign::Dot),
    ("(", Sign::OpensRound),
    (")", Sign::ClosesRound),
    ("[", Sign::Opens),
    ("]", Sign::Closes),
];

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Token<'a> {
    Word(&'a str),
    Number(f64),
    Text(String),
    Sign(Sign),
}

impl fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Word(word) => write!(f, "`{word}`"),
            Token::Number(number) => write!(f, "`{number}`"),
            Token::Text(_) => f.write_str("a text"),
            Token::Sign(sign) => {
                let written =
                    SIGNS.iter().find(|(_, known)| known == sign).map_or("", |(written, _)| written);
                write!(f, "`{written}`")
            }
        }
    }
}

/// What is left of a condition.
pub(super) struct Tokens<'a> {
    text: &'a str,
    /// Each with where it begins.
    all: Vec<(usize, Token<'a>)>,
    at: usize,
}

impl<'a> Tokens<'a> {
    pub(super) fn of(text: &'a str) -> Result<Tokens<'a>, ConditionError> {
        let mut tokens = Tokens { text, all: Vec::new(), at: 0 };
        let mut from = 0;
        loop {
            let rest = &text[from..];
            let trimmed = rest.trim_start();
            from += rest.len() - trimmed.len();
            let Some(first) = trimmed.chars().next() else { return Ok(tokens) };
            let (token, length) = tokens.token(from, trimmed, first)?;
            tokens.all.push((from, token));
            from += length;
        }
    }

    fn token(&self, from: usize, rest: &'a str, first: char) -> Result<(Token<'a>, usize), ConditionError> {
        let second = rest.chars().nth(1);
        if first.is_ascii_digit() || (first == '.' && second.is_some_and(|second| second.is_ascii_digit())) {
            let length = number_length(rest);
            let number = rest[..length].parse::<f64>().ok().filter(|number| number.is_finite());
            return match number {
                Some(number) => Ok((Token::Number(number), length)),
                None => Err(self.error_at(from, format!("`{}` is no number", &rest[..length]))),
            };
        }
        if begins_word(first) {
            let length = rest.find(|letter| !is_in_word(letter)).unwrap_or(rest.len());
            return Ok((Token::Word(&rest[..length]), length));
        }
        if first == '"' || first == '\'' {
            let (text, length) = quoted(rest, first).map_err(|why| self.error_at(from, why.to_owned()))?;
            return Ok((Token::Text(text), length));
        }
        match SIGNS.iter().find(|(written, _)| rest.starts_with(written)) {
            Some((written, sign)) => Ok((Token::Sign(*sign), written.len())),
            None => {
                let why = match first {
                    '%' => "`%` is not there, since all numbers are floating-point numbers".to_owned(),
                    '{' => "documents do not stand in conditions: ask for the keys of one, `motor.rpm`"
                        .to_owned(),
                    _ => format!("`{}` means nothing in a condition", first.escape_debug()),
                };
                Err(self.error_at(from, why))
            }
        }
    }

    /// The next one.
    pub(super) fn next(&self) -> Option<&Token<'a>> {
        self.all.get(self.at).map(|(_, token)| token)
    }

    pub(super) fn skip(&mut self) {
        self.at += 1;
    }

    pub(super) fn take_sign(&mut self, sign: Sign) -> bool {
        let is_it = self.next() == Some(&Token::Sign(sign));
        self.at += usize::from(is_it);
        is_it
    }

    /// Takes a word, in any case of its letters.
    pub(super) fn take_word(&mut self, word: &str) -> bool {
        let is_it = matches!(self.next(), Some(Token::Word(found)) if found.eq_ignore_ascii_case(word));
        self.at += usize::from(is_it);
        is_it
    }

    pub(super) fn take_sign_or_word(&mut self, sign: Sign, word: &str) -> bool {
        self.take_sign(sign) || self.take_word(word)
    }

    /// Takes a point and a key, unless it is a question.
    pub(super) fn key(&mut self) -> Option<&'a str> {
        let [(_, Token::Sign(Sign::Dot)), (_, Token::Word(key)), behind @ ..] = self.all.get(self.at..)?
        else {
            return None;
        };
        if matches!(behind.first(), Some((_, Token::Sign(Sign::OpensRound)))) {
            return None;
        }
        let key = *key;
        self.at += 2;
        Some(key)
    }

    /// Takes a key in brackets and quotes, as the first of a path.
    pub(super) fn quoted_key(&mut self) -> Option<String> {
        let rest = self.all.get(self.at..)?;
        let [(_, Token::Sign(Sign::Opens)), (_, Token::Text(key)), (_, Token::Sign(Sign::Closes)), ..] = rest
        else {
            return None;
        };
        let key = key.clone();
        self.at += 3;
        Some(key)
    }

    /// Takes a point, the name of a question, and its parenthesis.
    pub(super) fn question(&mut self) -> Option<&'a str> {
        let rest = self.all.get(self.at..)?;
        let [(_, Token::Sign(Sign::Dot)), (_, Token::Word(name)), (_, Token::Sign(Sign::OpensRound)), ..] =
            rest
        else {
            return None;
        };
        let name = *name;
        self.at += 3;
        Some(name)
    }

    /// Something else is expected where it is now.
    pub(super) fn expected(&self, what: &str) -> ConditionError {
        let found = self.next().map_or_else(|| "the end".to_owned(), ToString::to_string);
        self.error(format!("{found} stands where this is expected: {what}"))
    }

    pub(super) fn error(&self, why: String) -> ConditionError {
        let at = self.all.get(self.at).map_or(self.text.len(), |(at, _)| *at);
        self.error_at(at, why)
    }

    fn error_at(&self, at: usize, why: String) -> ConditionError {
        let before = &self.text[..at];
        let line = before.matches('\n').count() + 1;
        let letters = before.rsplit('\n').next().unwrap_or("").chars().count();
        ConditionError::Syntax { at: (line, letters + 1), why }
    }
}

fn begins_word(letter: char) -> bool {
    letter.is_alphabetic() || letter == '_'
}

fn is_in_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Whether a key needs no quotes behind a point.
pub(super) fn is_word(key: &str) -> bool {
    key.starts_with(begins_word) && key.chars().all(is_in_word)
}

fn number_length(text: &str) -> usize {
    let digits = |from: usize| {
        let rest = text.get(from..).unwrap_or("");
        from + rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len())
    };
    let mut end = digits(0);
    let follows = |at: usize| text[at..].starts_with(|letter: char| letter.is_ascii_digit());
    if text[end..].starts_with('.') && follows(end + 1) {
        end = digits(end + 1);
    }
    if text[end..].starts_with(['e', 'E']) {
        let sign = usize::from(text[end + 1..].starts_with(['+', '-']));
        if follows(end + 1 + sign) {
            end = digits(end + 1 + sign);
        }
    }
    end
}

/// A text in quotes, and how long it is with them.
fn quoted(text: &str, quote: char) -> Result<(String, usize), &'static str> {
    let mut read = String::new();
    let mut letters = text.char_indices().skip(1);
    while let Some((at, letter)) = letters.next() {
        match letter {
            _ if letter == quote => return Ok((read, at + 1)),
            '\n' | '\r' => break,
            '\\' => {
                let (_, escaped) = letters.next().ok_or("a text has no end")?;
                let mut code = |digits: usize| {
                    let hexadecimal: String = letters.by_ref().take(digits).map(|(_, digit)| digit).collect();
                    let code = u32::from_str_radix(&hexadecimal, 16).ok();
                    let code = code.filter(|_| hexadecimal.len() == digits);
                    code.and_then(char::from_u32).ok_or(
                        "behind \\u stand four hexadecimal digits, behind \\U eight, the number of a letter",
                    )
                };
                read.push(match escaped {
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    '\\' | '"' | '\'' | '`' | '?' => escaped,
                    'u' => code(4)?,
                    'U' => code(8)?,
                    _ => {
                        return Err(
                            "behind \\ in a text stands n, r, t, u, U, a quotation mark or another \\",
                        );
                    }
                });
            }
            _ => read.push(letter),
        }
    }
    Err("a text has no end: its quotation mark lacks")
}

/// A text, as it is read again.
pub(super) fn with_quotes(text: &str) -> String {
    let mut written = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => written.extend(['\\', letter]),
            '\n' => written.push_str("\\n"),
            '\r' => written.push_str("\\r"),
            '\t' => written.push_str("\\t"),
            _ if letter.is_control() => written.push_str(&format!("\\u{:04x}", u32::from(letter))),
            _ => written.push(letter),
        }
    }
    written.push('"');
    written
}

/// Words that are no keys where they stand first: keys that are called so have quotes, `["and"]`.
pub(super) fn is_reserved(word: &str) -> bool {
    ["IF", "AND", "OR", "NOT", "IN"].iter().any(|reserved| word.eq_ignore_ascii_case(reserved))
        || ["true", "false", "null"].contains(&word)
}
