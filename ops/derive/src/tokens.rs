//! The arguments of an attribute: words, literals and `key = value`, separated by commas.

use proc_macro2::{Ident, Literal, TokenStream, TokenTree};
use syn::{Attribute, Error, Meta, Result};

/// The arguments of an attribute, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arguments(Vec<Argument>);

#[derive(Clone, Debug)]
struct Argument {
    /// The word before `=`.
    key: Option<String>,
    value: TokenStream,
}

impl Arguments {
    /// Reads the attributes of this name.
    pub(crate) fn read(attributes: &[Attribute], name: &str) -> Result<Self> {
        let mut all = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident(name)) {
            match &attribute.meta {
                Meta::List(list) => all.add(list.tokens.clone()),
                other => return Err(Error::new_spanned(other, "expected arguments in brackets")),
            }
        }
        Ok(all)
    }

    /// Appends arguments: the first one of a key or of a form counts.
    pub(crate) fn add(&mut self, tokens: TokenStream) {
        let mut argument: Vec<TokenTree> = vec![];
        for token in tokens {
            if is_punct(&token, ',') {
                self.0.push(Argument::new(std::mem::take(&mut argument)));
            } else {
                argument.push(token);
            }
        }
        if !argument.is_empty() {
            self.0.push(Argument::new(argument));
        }
    }

    /// Refuses keys and words that mean nothing.
    pub(crate) fn check(&self, keys: &[&str], words: &[&str]) -> Result<()> {
        for Argument { key, value } in &self.0 {
            let is_known = match key {
                Some(key) => keys.contains(&key.as_str()),
                None => syn::parse2(value.clone())
                    .map_or(true, |word: Ident| words.contains(&word.to_string().as_str())),
            };
            if !is_known {
                let found = key.clone().unwrap_or_else(|| value.to_string());
                let known = [keys, words].concat().join("`, `");
                let message = format!("no argument `{found}`; known: `{known}`");
                return Err(Error::new_spanned(value, message));
            }
        }
        Ok(())
    }

    /// Returns the value of a key.
    pub(crate) fn get(&self, key: &str) -> Option<&TokenStream> {
        self.0
            .iter()
            .find(|argument| argument.key.as_deref() == Some(key))
            .map(|found| &found.value)
    }

    /// Returns true if the word is among the arguments.
    pub(crate) fn has(&self, word: &str) -> bool {
        self.words().any(|found| found == word)
    }

    /// Returns the arguments that are one word.
    pub(crate) fn words(&self) -> impl Iterator<Item = Ident> {
        self.alone().filter_map(|value| syn::parse2(value.clone()).ok())
    }

    /// Returns the first argument that is a literal.
    pub(crate) fn literal(&self) -> Option<Literal> {
        self.alone().find_map(|value| syn::parse2(value.clone()).ok())
    }

    /// Returns the ends of the first argument that is a range.
    pub(crate) fn range(&self) -> Option<[TokenStream; 2]> {
        self.alone().find_map(range)
    }

    fn alone(&self) -> impl Iterator<Item = &TokenStream> {
        self.0.iter().filter(|argument| argument.key.is_none()).map(|argument| &argument.value)
    }
}

impl Argument {
    fn new(tokens: Vec<TokenTree>) -> Self {
        match &tokens[..] {
            [TokenTree::Ident(key), equals, value @ ..]
                if is_punct(equals, '=') && !value.is_empty() =>
            {
                Self { key: Some(key.to_string()), value: value.iter().cloned().collect() }
            }
            _ => Self { key: None, value: tokens.into_iter().collect() },
        }
    }
}

fn is_punct(token: &TokenTree, punct: char) -> bool {
    matches!(token, TokenTree::Punct(found) if found.as_char() == punct)
}

/// Returns the ends of `low..=high`.
pub(crate) fn range(tokens: &TokenStream) -> Option<[TokenStream; 2]> {
    let tokens: Vec<TokenTree> = tokens.clone().into_iter().collect();
    let is_range = |three: &[TokenTree]| {
        three.iter().zip(['.', '.', '=']).all(|(token, punct)| is_punct(token, punct))
    };
    let at = tokens.windows(3).position(is_range)?;
    Some([tokens[..at].iter().cloned().collect(), tokens[at + 3..].iter().cloned().collect()])
}

/// Returns the text of an expression as it is usually written.
pub(crate) fn text(tokens: &TokenStream) -> String {
    match range(tokens) {
        Some([low, high]) => format!("{}..={}", text(&low), text(&high)),
        None => tokens.to_string().replace("- ", "-").replace(" :: ", "::"),
    }
}

/// Returns true if an expression is a number or has one with a fraction.
pub(crate) fn has_fraction(tokens: &TokenStream) -> bool {
    let text = text(tokens).replace("..=", " ");
    text.contains(['.', 'e'])
}

/// Returns true if an expression is a number, with a sign or without.
pub(crate) fn is_number(tokens: &TokenStream) -> bool {
    text(tokens).trim_start_matches('-').starts_with(|first: char| first.is_ascii_digit())
}

/// Returns a number as an expression of a float type.
pub(crate) fn float(number: &TokenStream) -> TokenStream {
    if has_fraction(number) || !is_number(number) {
        return number.clone();
    }
    let text = format!("{}.0", text(number));
    text.parse().unwrap_or_else(|_| number.clone())
}

/// Returns true if an expression is a text.
pub(crate) fn is_text(tokens: &TokenStream) -> bool {
    text(tokens).starts_with('"')
}
