//! The constructor of an op, and a method for each parameter that the constructor does not take.

use crate::field::{Field, Param, params};
use crate::tokens::{self, Arguments};
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote};
use syn::Result;

/// Returns the methods of an op, and its implementation of `Default` if its constructor takes nothing.
pub(crate) fn write(op_type: &Ident, op: &Arguments, fields: &[Field]) -> Result<TokenStream> {
    let by_hand = op.get("constructor").is_some() || fields.is_empty();
    let constructor = if by_hand { TokenStream::new() } else { constructor(op, fields)? };
    let is_derived =
        |param: &Param<'_>| param.field.is_own && !param.is_positional() && !param.has("by_hand");
    let named = params(fields).filter(is_derived);
    let setters = named.map(setter);
    let default = (!by_hand && !params(fields).any(|param| param.is_positional())).then(|| {
        quote! {
            impl Default for #op_type {
                fn default() -> Self {
                    Self::new()
                }
            }
        }
    });
    Ok(quote! {
        impl #op_type { #constructor #(#setters)* }
        #default
    })
}

fn constructor(op: &Arguments, fields: &[Field]) -> Result<TokenStream> {
    let taken: Vec<Param<'_>> = params(fields).filter(Param::is_positional).collect();
    let arguments = taken.iter().map(|param| {
        let (name, (kind, _)) = (&param.field.name, param.argument());
        quote!(#name: #kind)
    });
    let values = fields.iter().map(|field| {
        let name = &field.name;
        let value = match taken.iter().find(|param| param.field.name == field.name) {
            Some(param) => checked(*param),
            None => field.first_value()?,
        };
        Ok(quote!(#name: #value))
    });
    let values = values.collect::<Result<Vec<_>>>()?;
    let doc = match op.get("new") {
        Some(doc) => quote!(#[doc = #doc]),
        None => taken.iter().flat_map(|param| &param.field.doc).map(|line| quote!(#line)).collect(),
    };
    let errors: Vec<String> = taken.iter().filter_map(Param::errors).collect();
    let constant = (!fields.iter().any(Field::is_on_the_heap)).then(|| quote!(const));
    Ok(if errors.is_empty() {
        quote! {
            #doc
            #[must_use]
            pub #constant fn new(#(#arguments),*) -> Self {
                Self { #(#values),* }
            }
        }
    } else {
        let errors = section_on_errors(&errors);
        quote! {
            #doc
            #errors
            pub fn new(#(#arguments),*) -> Result<Self, crate::ParamError> {
                Ok(Self { #(#values),* })
            }
        }
    })
}

fn setter(param: Param<'_>) -> TokenStream {
    let (name, doc) = (&param.field.name, doc(param));
    if param.has("flag") {
        return quote! {
            #(#doc)*
            #[must_use]
            pub const fn #name(mut self) -> Self {
                self.#name = true;
                self
            }
        };
    }
    let ((argument, is_converted), value) = (param.argument(), checked(param));
    let value = if param.has("optional") { quote!(Some(#value)) } else { value };
    if let Some(errors) = param.errors() {
        let errors = section_on_errors(&[errors]);
        return quote! {
            #(#doc)*
            #errors
            pub fn #name(mut self, #name: #argument) -> Result<Self, crate::ParamError> {
                self.#name = #value;
                Ok(self)
            }
        };
    }
    let constant = (!is_converted).then(|| quote!(const));
    quote! {
        #(#doc)*
        #[must_use]
        pub #constant fn #name(mut self, #name: #argument) -> Self {
            self.#name = #value;
            self
        }
    }
}

/// Returns the expression of a given value as the field keeps it.
fn checked(param: Param<'_>) -> TokenStream {
    let (name, text) = (&param.field.name, param.name());
    let value = match param.argument() {
        (_, true) => quote!(#name.into()),
        (_, false) => quote!(#name),
    };
    if let Some(check) = param.get("check") {
        return quote!(#check(Self::ENTRY.name, #text, #value)?);
    }
    match param.limits() {
        Some(limits) => {
            let given = param.given();
            quote!(<#given as crate::registry::Checked<_>>::checked(#value, Self::ENTRY.name, #text, #limits)?)
        }
        None => value,
    }
}

/// Returns the comment of a method. A default that the comment does not name is added to its last line.
fn doc(param: Param<'_>) -> Vec<TokenStream> {
    let mut lines: Vec<TokenStream> =
        param.field.doc.iter().map(ToTokens::to_token_stream).collect();
    let comment = quote!(#(#lines)*).to_string();
    let is_named = comment.contains("Default ") || comment.contains("default");
    if let (Some(default), false, false) = (param.get("default"), is_named, param.has("flag")) {
        let text = match tokens::text(default) {
            range if range.contains("..") => format!(" Default `{range}`."),
            path if path.contains("::") => {
                format!(" Default [`{}`]({path}).", path.trim_start_matches("crate::"))
            }
            number => format!(" Default {number}."),
        };
        lines.push(quote!(#[doc = #text]));
    }
    lines
}

fn section_on_errors(errors: &[String]) -> TokenStream {
    let mut text = errors.join(", or ").replace(", or If ", ", or ");
    text.push('.');
    let text = format!(" {text}");
    quote! {
        #[doc = ""]
        #[doc = " # Errors"]
        #[doc = ""]
        #[doc = #text]
    }
}
