//! The entry of an op in the registry.

use crate::field::{Field, Param, params};
use crate::tokens::{self, Arguments};
use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::{Error, Result};

const KEYS: [&str; 8] =
    ["aliases", "build", "constructor", "draw", "golden", "new", "placed", "recipes"];

pub(crate) fn write(op_type: &Ident, op: &Arguments, fields: &[Field]) -> Result<TokenStream> {
    let params: Vec<Param<'_>> = params(fields).collect();
    let (Some(family), Some(summary)) = (op.words().next(), op.literal()) else {
        return Err(Error::new_spanned(op_type, "expected #[op(FAMILY, \"summary\")]"));
    };
    op.check(&KEYS, &[&family.to_string()])?;
    let infos = params.iter().map(|param| info(*param)).collect::<Result<Vec<_>>>()?;
    let antialias = params
        .iter()
        .any(|param| param.has("antialias"))
        .then(|| quote!(crate::registry::ANTIALIAS));
    let infos = infos.into_iter().chain(antialias);
    let aliases = op.get("aliases").cloned().unwrap_or_else(|| quote!([]));
    let build = match op.get("build") {
        Some(path) => path.clone(),
        None => {
            let op = construction(op_type, op, &params, &read);
            quote!(|args| { #op Ok(crate::registry::built(op)) })
        }
    };
    let name = op_type.to_string();
    let recipes = match op.get("recipes") {
        Some(reason) if tokens::is_text(reason) => quote!(None(#reason)),
        Some(list) => quote!(Drawn(&#list)),
        None => {
            let draw = op.get("draw").cloned().unwrap_or_else(|| draw(op_type, op, &params));
            quote!(Drawn(&[crate::registry::Recipe { name: #name, draw: #draw }]))
        }
    };
    let golden = match op.get("golden") {
        Some(reason) => quote!(None(#reason)),
        None => quote!(Tested),
    };
    Ok(quote! {
        pub(crate) const ENTRY: crate::registry::OpInfo = crate::registry::OpInfo {
            name: #name,
            class: crate::registry::#family,
            summary: #summary,
            params: &[#(#infos),*],
            aliases: &#aliases,
            build: #build,
            recipes: crate::registry::Recipes::#recipes,
            golden: crate::registry::Golden::#golden,
        };
    })
}

/// Returns the description of a parameter.
fn info(param: Param<'_>) -> Result<TokenStream> {
    let (name, meaning, given) = (param.name(), param.meaning()?, param.given());
    let kind = param.get("kind").cloned();
    let kind = kind.unwrap_or_else(|| quote!(<#given as crate::registry::Given>::KIND));
    let need = match (param.get("default"), param.get("example")) {
        (Some(default), _) => {
            let default = constant(default);
            quote!(Default(#default))
        }
        (None, Some(example)) => {
            let example = constant(example);
            quote!(Required(#example))
        }
        (None, None) if param.has("optional") => quote!(Optional),
        (None, None) => {
            return Err(Error::new_spanned(&param.field.name, "expected a default or an example"));
        }
    };
    let limits = match param.limits() {
        Some(limits) => quote!(Some(#limits)),
        None => quote!(None),
    };
    Ok(quote! {
        crate::registry::ParamInfo {
            name: #name,
            kind: #kind,
            need: crate::registry::ParamDefault::#need,
            doc: #meaning,
            limits: #limits,
        }
    })
}

/// Returns a default or an example as a value of the registry.
fn constant(value: &TokenStream) -> TokenStream {
    let fraction = tokens::has_fraction(value);
    let form = match (tokens::range(value), tokens::text(value).as_str()) {
        (Some([low, high]), _) if fraction => quote!(Floats(&[#low, #high])),
        (Some([low, high]), _) => quote!(Ints(&[#low, #high])),
        (None, "true" | "false") => quote!(Bool(#value)),
        (None, text) if text.starts_with('"') => quote!(Word(#value)),
        (None, text) if text.starts_with("ParamValue") => return value.clone(),
        (None, text) if text.starts_with("[\"") => quote!(Words(&#value)),
        (None, text) if text.starts_with("[[") => quote!(Pairs(&#value)),
        (None, text) if text.starts_with('[') && fraction => quote!(Floats(&#value)),
        (None, text) if text.starts_with('[') => quote!(Ints(&#value)),
        (None, _) if !tokens::is_number(value) => quote!(Word(#value.word())),
        (None, _) if fraction => quote!(Float(#value)),
        (None, _) => quote!(Int(#value)),
    };
    quote!(crate::registry::ParamValue::#form)
}

/// Returns the statements that build `op`, with the value of each parameter that `value` has one for.
fn construction(
    op_type: &Ident,
    op: &Arguments,
    params: &[Param<'_>],
    value: &dyn Fn(Param<'_>) -> Option<TokenStream>,
) -> TokenStream {
    if params.is_empty() {
        return quote!(let op = #op_type;);
    }
    let constructor = op.get("constructor").cloned().unwrap_or_else(|| quote!(new));
    let values = params.iter().filter(|param| param.is_positional()).map(|param| value(*param));
    let named = params.iter().filter(|param| !param.is_positional());
    let steps = named.filter_map(|param| {
        let (method, value) = (&param.field.name, value(*param)?);
        let (given, arguments) = match param.given().to_string().starts_with('(') {
            true => (quote!((first, second)), quote!(first, second)),
            false => (quote!(value), quote!(value)),
        };
        let step = quote!(crate::registry::step(op.#method(#arguments))?);
        Some(if param.has("optional") {
            quote!(let op: #op_type = match #value { Some(#given) => #step, None => op };)
        } else if param.has("flag") {
            quote!(let op: #op_type = if #value { op.#method() } else { op };)
        } else {
            quote!(let #given = #value; let op: #op_type = #step;)
        })
    });
    quote! {
        let op: #op_type = crate::registry::step(#op_type::#constructor(#(#values),*))?;
        #(#steps)*
    }
}

/// Returns the expression that reads a parameter from arguments.
fn read(param: Param<'_>) -> Option<TokenStream> {
    let (name, given) = (param.name(), param.given());
    Some(if param.has("optional") {
        quote!(args.if_given(#name, <#given as crate::registry::Given>::read)?)
    } else {
        quote!(<#given as crate::registry::Given>::read(args, #name)?)
    })
}

/// Returns the function that draws each parameter.
fn draw(op_type: &Ident, op: &Arguments, params: &[Param<'_>]) -> TokenStream {
    let steps = construction(op_type, op, params, &drawn);
    let text = steps.to_string();
    let is_used =
        |name| text.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|word| word == name);
    let is_placed = op.get("placed").is_some();
    let rng = if is_used("rng") { quote!(rng) } else { quote!(_) };
    let before = if is_used("before") || is_placed { quote!(before) } else { quote!(_) };
    let placed = match op.get("placed") {
        Some(path) => quote!(#path(op, before)),
        None => quote!(Ok(crate::registry::built(op))),
    };
    let uses = is_used("recipe").then(|| {
        quote!(
            use crate::registry::recipe;
        )
    });
    quote!(|#rng, #before| { #uses #steps #placed })
}

/// Returns the expression that draws a parameter; none if its default stays.
fn drawn(param: Param<'_>) -> Option<TokenStream> {
    let draw = param.get("draw");
    let range = match draw {
        Some(draw) => tokens::range(draw),
        None => param.range(),
    };
    match (range, param.given().to_string().as_str()) {
        (Some([low, high]), "u32") => Some(quote!(#low + rng.below(#high - #low + 1))),
        (Some([low, high]), "f64" | "NumberOrRange") => {
            Some(quote!(recipe::number(rng, #low, #high)))
        }
        _ => draw.cloned(),
    }
}
