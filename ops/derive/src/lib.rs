//! The macros by which `fuseloop-ops` declares an op: its parameters once, at the fields that keep them, and its class.
//! They are for that crate alone: the code that they write uses its private modules.
//!
//! ```text
//! #[derive(Op, Clone, Copy, Debug, PartialEq)]
//! #[op(COLOR, "keeps the highest bits of each value, in a share p of the images")]
//! pub struct RandomPosterize {
//!     /// Keeps `bits` bits, in half of the images.
//!     #[param("how many are kept", 0..=8, example = 4)]
//!     bits: u32,
//!     /// Sets the share of the images that the op changes.
//!     #[param(share)]
//!     p: f64,
//! }
//!
//! #[class(Pixel)]
//! impl Op for RandomPosterize {
//!     fn output(&self, input: &Type) -> Result<Type, TypeError> {
//!         on_levels(self.name(), input)
//!     }
//! }
//! ```
//!
//! [`Op`](derive@Op) writes a constructor `new(bits)`, a method `p(self, p)`, and the entry of the registry; [`macro@class`]
//! writes the methods `name` and `class`. The rest of an op is plain Rust.

mod entry;
mod field;
mod methods;
mod tokens;

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::quote;
use syn::{Attribute, Data, DeriveInput, Error, Fields, Result};

/// Writes the constructor, the methods and the registry entry of an op from the fields of its struct.
///
/// The attribute `op` of the struct has the family (a constant of the registry) and a summary of one line, then:
///
/// | key | meaning | if it is missing |
/// |---|---|---|
/// | `new = "Builds ..."` | the comment of `new`, for an op without required parameters | the comments of the required fields |
/// | `constructor = of` | a constructor with this name, written by hand, takes the required parameters | `new` is derived |
/// | `build = path` | a function that builds the op from arguments | the constructor and the methods are called |
/// | `aliases = ["A"]` | other names | none |
/// | `draw = path` | the function that draws an op | each parameter is drawn |
/// | `recipes = LIST` | several recipes, or the reason why there is none | one recipe |
/// | `placed = path` | what a drawn op is passed to, with the type of its input | it stands alone |
/// | `golden = "reason"` | why no test compares the op with an original | a test does |
///
/// The attribute `param` of a field makes it a parameter of the same name. A field without it has an attribute `init`
/// with its first value, unless the constructor is written by hand. The comment of the field is that of the method that takes the parameter; a default that the
/// comment doesn't name, and the section on errors, are added. The attribute has the parameter's meaning on one line, a
/// range `low..=high` of the accepted numbers, and:
///
/// A parameter that no field keeps is an attribute of the struct, `#[param(name: Type, ...)]`, where `Type` is what its
/// method takes. The constructor and the methods of an op with such parameters are written by hand.
///
/// | word or key | meaning |
/// |---|---|
/// | `share`, `size`, `fill`, `interpolation`, `warp_fill`, `warp_interpolation` | what such a parameter has in all ops: see `field::preset` |
/// | `antialias` | the op has torchvision's parameter of this name too |
/// | `positive`, `not_negative`, `finite` | accepted numbers, in place of a range |
/// | `doc = expression` | the meaning, in place of a text |
/// | `default = value` | its default; a parameter with none is required, and the constructor takes it |
/// | `example = value` | an example of a required parameter |
/// | `new` | the constructor takes it, though there is a default |
/// | `optional` | it has no default, and can be missing: the field is an `Option` |
/// | `flag` | a `bool` whose method takes no argument and sets it |
/// | `by_hand` | its method is written by hand |
/// | `given = Type` | the type that the method takes, if it is another than that of the field |
/// | `name = "name"` | its name for users, if it is another than that of the field |
/// | `kind = ParamKind::Channels` | the kind of its values, if it is another than that of the given type |
/// | `check = path` | a function of the op's name, the parameter's and the given value, which returns it as the field keeps it |
/// | `limits = expression`, `errors = "If ..."` | the accepted numbers, and what the comment says of them |
/// | `draw = expression` | how a recipe draws it from `rng`; a range, to draw from fewer numbers than are accepted |
#[proc_macro_derive(Op, attributes(op, param, init))]
pub fn derive_op(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    op(&input).unwrap_or_else(Error::into_compile_error).into()
}

/// Writes the methods `name` and `class` of an `impl Op for X`: `#[class(Pixel)]` is the class of an op that implements
/// `PixelOp`, and `#[class(Cast(self.to))]` a class with other contents.
#[proc_macro_attribute]
pub fn class(
    class: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    with_class(&class.into(), item.into()).unwrap_or_else(Error::into_compile_error).into()
}

fn op(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new_spanned(&input.ident, "an op is a struct"));
    };
    let fields = match &data.fields {
        Fields::Named(fields) => fields.named.iter().map(field::Field::read).collect(),
        Fields::Unit => Ok(vec![]),
        Fields::Unnamed(fields) => Err(Error::new_spanned(fields, "the fields need names")),
    };
    let mut all = field::Field::of_struct(&input.attrs)?;
    all.extend(fields?);
    let (fields, op) = (all, tokens::Arguments::read(&input.attrs, "op")?);
    let name = &input.ident;
    let methods = methods::write(name, &op, &fields)?;
    let entry = entry::write(name, &op, &fields)?;
    Ok(quote! {
        #methods
        impl #name { #entry }
    })
}

fn with_class(class: &TokenStream, item: TokenStream) -> Result<TokenStream> {
    let mut item: Vec<TokenTree> = item.into_iter().collect();
    let (Some(TokenTree::Group(body)), Some(TokenTree::Ident(name))) =
        (item.pop(), item.last().cloned())
    else {
        return Err(Error::new(Span::call_site(), "expected `impl Op for Name { ... }`"));
    };
    let class = match class.clone().into_iter().count() {
        1 => quote!(#class(self)),
        _ => quote!(#class),
    };
    let (name, methods) = (name.to_string(), body.stream());
    Ok(quote! {
        #(#item)* {
            fn name(&self) -> &'static str {
                #name
            }

            fn class(&self) -> crate::author::OpClass<'_> {
                crate::author::OpClass::#class
            }

            #methods
        }
    })
}

/// The lines of a comment, which a macro gets as attributes.
fn comment(attributes: &[Attribute]) -> Vec<&Attribute> {
    attributes.iter().filter(|attribute| attribute.path().is_ident("doc")).collect()
}
