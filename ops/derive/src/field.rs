//! A field of an op: how its attribute is read, and what follows from its type.

use crate::comment;
use crate::tokens::{self, Arguments};
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote};
use syn::parse::ParseStream;
use syn::{Attribute, Error, Result, Token, Type};

/// A field of an op.
pub(crate) struct Field {
    pub(crate) name: Ident,
    pub(crate) kind: Type,
    /// The comment.
    pub(crate) doc: Vec<Attribute>,
    /// The first value, if an attribute has it.
    init: Option<TokenStream>,
    /// The parameter, if the field keeps one.
    pub(crate) param: Option<Arguments>,
    /// False for a parameter that no field keeps.
    pub(crate) is_own: bool,
}

const KEYS: [&str; 10] =
    ["check", "default", "doc", "draw", "errors", "example", "given", "kind", "limits", "name"];

const WORDS: [&str; 14] = [
    "antialias",
    "by_hand",
    "fill",
    "finite",
    "flag",
    "interpolation",
    "new",
    "not_negative",
    "optional",
    "positive",
    "share",
    "size",
    "warp_fill",
    "warp_interpolation",
];

/// Adds the arguments of the presets that the words name, and returns their comment.
fn with_presets(mut arguments: Arguments) -> Result<(Arguments, Option<&'static str>)> {
    arguments.check(&KEYS, &WORDS)?;
    let words: Vec<Ident> = arguments.words().collect();
    let mut comment = None;
    for (more, about) in words.iter().filter_map(|word| preset(&word.to_string())) {
        arguments.add(more);
        comment = Some(about).filter(|about| !about.is_empty());
    }
    Ok((arguments, comment))
}

/// The arguments of parameters that many ops have, and the comment of the method.
fn preset(word: &str) -> Option<(TokenStream, &'static str)> {
    Some(match word {
        "share" => (
            quote! { "share of the images", 0.0..=1.0, default = 0.5, draw = recipe::share(rng) },
            "Sets the share of the images that the op changes.",
        ),
        "size" => (
            quote! {
                "of the output; one number for a square", 1..=65535, example = 224,
                draw = recipe::size(rng)
            },
            "",
        ),
        "fill" => (
            quote! {
                "fill colour outside the image", default = 0, kind = crate::registry::ParamKind::Color,
                draw = recipe::color(rng)
            },
            "Sets the colour outside the image. Default black.",
        ),
        "warp_fill" => (
            quote! {
                "fill colour outside the image", default = 0, kind = crate::registry::ParamKind::Color,
                draw = crate::warping::random_fill(rng)
            },
            "Sets the fill colour of the area outside the input; `None` is black without blending at the edge. \
             Default black.",
        ),
        "interpolation" => (
            quote! {
                "how pixels are weighed", default = crate::Interpolation::Bilinear,
                draw = recipe::interpolation(rng)
            },
            "Sets how pixels are weighted. The default is bilinear.",
        ),
        "warp_interpolation" => (
            quote! {
                "interpolation between pixels", draw = recipe::warp_interpolation(rng)
            },
            "Sets how the image is interpolated between pixels.",
        ),
        _ => return None,
    })
}

/// The accepted numbers of a parameter.
enum Accepted {
    /// `low..=high`
    Range([TokenStream; 2]),
    Positive,
    NotNegative,
    Finite,
    /// An expression.
    Other(TokenStream),
}

impl Field {
    pub(crate) fn read(field: &syn::Field) -> Result<Self> {
        let name = field.ident.clone().ok_or_else(|| Error::new_spanned(field, "no name"))?;
        let init = field.attrs.iter().find(|attribute| attribute.path().is_ident("init"));
        let init = init.map(|init| init.parse_args::<TokenStream>()).transpose()?;
        let mut doc: Vec<Attribute> = comment(&field.attrs).into_iter().cloned().collect();
        let param = if field.attrs.iter().any(|attribute| attribute.path().is_ident("param")) {
            let (arguments, comment) = with_presets(Arguments::read(&field.attrs, "param")?)?;
            if let (Some(comment), true) = (comment, doc.is_empty()) {
                doc.push(syn::parse_quote!(#[doc = #comment]));
            }
            Some(arguments)
        } else {
            None
        };
        Ok(Self { name, kind: field.ty.clone(), doc, init, param, is_own: true })
    }

    /// Reads the parameters that attributes of the struct declare.
    pub(crate) fn of_struct(attributes: &[Attribute]) -> Result<Vec<Self>> {
        let params = attributes.iter().filter(|attribute| attribute.path().is_ident("param"));
        let read = |input: ParseStream<'_>| {
            let name = input.parse()?;
            input.parse::<Token![:]>()?;
            let kind = input.parse()?;
            input.parse::<Token![,]>()?;
            let mut arguments = Arguments::default();
            arguments.add(input.parse()?);
            let param = Some(with_presets(arguments)?.0);
            Ok(Self { name, kind, doc: vec![], init: None, param, is_own: false })
        };
        params.map(|attribute| attribute.parse_args_with(read)).collect()
    }

    /// Returns the field's first value, an expression.
    pub(crate) fn first_value(&self) -> Result<TokenStream> {
        if let Some(init) = &self.init {
            return Ok(init.clone());
        }
        let default = self.param.as_ref().and_then(|param| param.get("default"));
        let kind = self.kind_text();
        match default {
            Some(default) => Ok(match (tokens::range(default), kind.as_str()) {
                (Some([low, high]), _) if kind.starts_with('(') => quote!((#low, #high)),
                (Some([low, high]), _) if kind.starts_with('[') => quote!([#low, #high]),
                (_, "f32" | "f64") => tokens::float(default),
                _ if kind.starts_with("Vec<") => quote!(vec!#default),
                (_, "[u8;3]") => quote!([#default; 3]),
                (_, "Option<[u8;3]>") => quote!(Some([#default; 3])),
                _ => default.clone(),
            }),
            None if kind.starts_with("Option<") => Ok(quote!(None)),
            None => Err(Error::new_spanned(&self.name, "expected a default, or `init`")),
        }
    }

    /// Returns true if the field is of a type that constants can't have.
    pub(crate) fn is_on_the_heap(&self) -> bool {
        self.kind_text().contains("Vec<")
    }

    fn kind_text(&self) -> String {
        self.kind.to_token_stream().to_string().replace(' ', "")
    }
}

/// A field with its parameter.
#[derive(Clone, Copy)]
pub(crate) struct Param<'a> {
    pub(crate) field: &'a Field,
    arguments: &'a Arguments,
}

/// Returns the parameters of an op.
pub(crate) fn params(fields: &[Field]) -> impl Iterator<Item = Param<'_>> {
    fields
        .iter()
        .filter_map(|field| field.param.as_ref().map(|arguments| Param { field, arguments }))
}

impl<'a> Param<'a> {
    pub(crate) fn has(&self, word: &str) -> bool {
        self.arguments.has(word)
    }

    pub(crate) fn get(&self, key: &str) -> Option<&'a TokenStream> {
        self.arguments.get(key)
    }

    /// Returns true if the constructor takes the parameter.
    pub(crate) fn is_positional(&self) -> bool {
        self.has("new") || (self.get("default").is_none() && !self.has("optional"))
    }

    /// Returns the name that users write, a literal.
    pub(crate) fn name(&self) -> TokenStream {
        let name = self.field.name.to_string();
        self.get("name").cloned().unwrap_or_else(|| quote!(#name))
    }

    /// Returns the meaning of the parameter.
    pub(crate) fn meaning(&self) -> Result<TokenStream> {
        match (self.get("doc"), self.arguments.literal()) {
            (Some(meaning), _) => Ok(meaning.clone()),
            (None, Some(meaning)) => Ok(meaning.into_token_stream()),
            (None, None) => {
                Err(Error::new_spanned(&self.field.name, "expected the meaning, a text"))
            }
        }
    }

    /// Returns the type that is read from data.
    pub(crate) fn given(&self) -> TokenStream {
        if let Some(given) = self.get("given") {
            return given.clone();
        }
        let kind = self.field.kind_text();
        let kind =
            kind.strip_prefix("Option<").and_then(|of| of.strip_suffix('>')).unwrap_or(&kind);
        match kind {
            "f32" => quote!(f64),
            "(f64,f64)" | "(f32,f32)" | "[f32;2]" => quote!(std::ops::RangeInclusive<f64>),
            "FillValue" => quote!(f32),
            other => other.parse().unwrap_or_default(),
        }
    }

    /// Returns the type of the argument that the method takes, and whether it is converted by `into`.
    pub(crate) fn argument(&self) -> (TokenStream, bool) {
        let given = self.given();
        let of = match given.to_string().as_str() {
            "Size" | "KernelSize" | "NumberOrRange" | "Sides" => given,
            _ if self.field.kind_text() == "Option<[u8;3]>" => self.field.kind.to_token_stream(),
            _ => return (given, false),
        };
        (quote!(impl Into<#of>), true)
    }

    fn accepted(&self) -> Option<Accepted> {
        if let Some(limits) = self.get("limits") {
            return Some(Accepted::Other(limits.clone()));
        }
        if let Some(range) = self.arguments.range() {
            return Some(Accepted::Range(range));
        }
        let word = ["positive", "not_negative", "finite"].into_iter().find(|word| self.has(word));
        word.map(|word| match word {
            "positive" => Accepted::Positive,
            "not_negative" => Accepted::NotNegative,
            _ => Accepted::Finite,
        })
    }

    /// Returns the range of the accepted numbers, if it is declared as one.
    pub(crate) fn range(&self) -> Option<[TokenStream; 2]> {
        match self.accepted() {
            Some(Accepted::Range(range)) => Some(range),
            _ => None,
        }
    }

    /// Returns true if the parameter is a range of numbers.
    fn is_range(&self) -> bool {
        let given = self.given().to_string();
        given.contains("RangeInclusive") || given == "NumberOrRange"
    }

    /// Returns the expression of the accepted numbers, if not all are.
    pub(crate) fn limits(&self) -> Option<TokenStream> {
        let limits = quote!(crate::registry::ParamLimits);
        Some(match (self.accepted()?, self.is_range()) {
            (Accepted::Other(limits), _) => limits,
            (Accepted::Positive, false) => quote!(#limits::POSITIVE),
            (Accepted::Positive, true) => quote!(#limits::POSITIVE_RANGE),
            (Accepted::NotNegative, false) => quote!(#limits::NOT_NEGATIVE),
            (Accepted::NotNegative, true) => quote!(#limits::NOT_NEGATIVE_RANGE),
            (Accepted::Finite, false) => quote!(#limits::FINITE),
            (Accepted::Finite, true) => quote!(#limits::FINITE_RANGE),
            (Accepted::Range([low, high]), is_range) => {
                let [low_text, high_text] = [&low, &high].map(tokens::text);
                let whole = |text: String| text.strip_suffix(".0").unwrap_or(&text).to_owned();
                let expected = if is_range {
                    format!("{} <= low <= high <= {}", whole(low_text), whole(high_text))
                } else {
                    format!("{low_text}..={high_text}").replace('_', "")
                };
                let (low, high) = (tokens::float(&low), tokens::float(&high));
                quote!(#limits::new(#low, #high, #expected))
            }
        })
    }

    /// Returns what the comment of a method says on errors, without the full stop.
    pub(crate) fn errors(&self) -> Option<String> {
        if let Some(errors) = self.get("errors") {
            return Some(errors.to_string().trim_matches('"').trim_end_matches('.').to_owned());
        }
        let name = &self.field.name;
        let given = self.given().to_string();
        if self.get("check").is_some() {
            return Some(format!("If `{name}` is not accepted"));
        }
        Some(match (self.accepted()?, self.is_range()) {
            (Accepted::Range([low, high]), is_range) => {
                let range = format!("`{}..={}`", tokens::text(&low), tokens::text(&high));
                match given.as_str() {
                    "Size" => format!("If a side is not in {range}"),
                    "KernelSize" => format!("If a number is not in {range}"),
                    _ if is_range => format!("If the range is empty, or not in {range}"),
                    _ => format!("If `{name}` is not in {range}"),
                }
            }
            (Accepted::Positive, false) => format!("If `{name}` is not above 0, or not finite"),
            (Accepted::NotNegative, false) => format!("If `{name}` is negative or not finite"),
            (Accepted::Finite, false) => format!("If `{name}` is not finite"),
            (Accepted::Positive, true) => "If the range is empty, not finite or not above 0".into(),
            (Accepted::NotNegative, true) => "If the range is empty, negative or not finite".into(),
            (Accepted::Finite, true) => "If the range is empty or not finite".into(),
            (Accepted::Other(_), _) => format!("If `{name}` is not accepted"),
        })
    }
}
