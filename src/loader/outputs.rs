//! The outputs of a loader: the tensors of a batch, how each is computed, and whose draws it uses.
//!
//! | output | computed from                        | draws                                      |
//! |--------|--------------------------------------|--------------------------------------------|
//! | field  | a field of the file, by its pipeline | its own                                    |
//! | view   | the same field, by another pipeline  | its own                                    |
//! | branch | the first ops of an output, and more | that output's: the shared ops do the same  |
//!
//! Outputs are in the order of the file, then in the order they were added. An output that shares the
//! draws of another draws the same numbers for the same op.

use super::array_images::ArrayRequest;
use super::collate::Collate;
use super::error::{of_field, of_output};
use super::pipeline::Pipeline;
use super::targets::{Target, TargetRequest, Targets};
use crate::decode::ImageReadMode;
use crate::error::{Error, fail};
use crate::sample::Epoch;
use crate::source::{Escaped, FieldKind, ObjectField, ObjectFields, Source};
use crate::warnings::warn;
use fuseloop_ops::Ops;
use fuseloop_ops::internals::SampleKey;
use std::sync::Arc;

/// The outputs that the user asked for, not yet checked against the dataset.
#[derive(Clone, Default)]
pub(super) struct OutputRequest {
    pub(super) pipelines: Vec<(String, Pipeline)>,
    /// Ops for a component of the dataset.
    pub(super) component_pipelines: Vec<(usize, String, Pipeline)>,
    pub(super) without: Vec<String>,
    /// Image fields that hold masks.
    pub(super) masks: Vec<String>,
    /// What the images of a field are read as.
    pub(super) read_modes: Vec<(String, ImageReadMode)>,
    /// Declarations about fields of arrays.
    pub(super) arrays: Vec<(String, ArrayRequest)>,
    pub(super) extras: Vec<ExtraOutput>,
    /// The first output draws as the second does.
    pub(super) shares: Vec<(String, String)>,
    pub(super) collates: Vec<(String, Collate)>,
    /// The targets of image fields.
    pub(super) targets: Vec<(String, Targets)>,
    /// True for the targets that the dataset knows of, in addition to `targets`.
    pub(super) auto_targets: bool,
}

/// An output in addition to those of the fields.
#[derive(Clone)]
pub(super) struct ExtraOutput {
    pub(super) name: String,
    pub(super) of: String,
    /// For a branch, the number of ops of `of` that come first; `None` for a view.
    pub(super) after: Option<usize>,
    pub(super) pipeline: Pipeline,
}

/// One tensor of the batches.
#[derive(Clone)]
pub(super) struct OutputSpec {
    pub(super) name: String,
    /// The name that its field is stored under, if that differs.
    pub(super) alias: Option<String>,
    pub(super) field: usize,
    pub(super) draws: DrawsOf,
    /// The heading of the output in `explain`.
    pub(super) title: String,
    /// How its samples become a batch, if they differ in size.
    pub(super) collate: Option<Collate>,
    /// The components of the dataset whose samples have other ops.
    pub(super) component_ops: Vec<(usize, Pipeline)>,
    /// True for an image whose values are numbers of classes.
    pub(super) is_mask: bool,
    /// What the field's images are read as.
    pub(super) read_mode: ImageReadMode,
    /// The declarations about the field's arrays.
    pub(super) array: ArrayRequest,
    /// The image field that the output follows, and its declaration, if it is a target.
    pub(super) target: Option<(usize, Target)>,
    /// The targets that follow the output.
    pub(super) targets: Option<Arc<TargetRequest>>,
    steps: Vec<PipelineEdit>,
    /// The id of the output's own step.
    own: usize,
    is_branch: bool,
}

/// Whose draws an output uses: the field's default output is view 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DrawsOf {
    pub(super) field: usize,
    pub(super) view: usize,
}

impl DrawsOf {
    pub(super) fn key(self, sample: SampleKey) -> SampleKey {
        let field = sample.field(self.field);
        if self.view == 0 { field } else { field.field(self.view) }
    }
}

/// One step of building a list of ops: truncates the list to `keep` ops, then appends more.
#[derive(Clone)]
struct PipelineEdit {
    /// The output that the step belongs to; branches have copies of it.
    of: usize,
    keep: usize,
    pipeline: Pipeline,
}

impl OutputSpec {
    /// Returns a copy with another name.
    pub(super) fn named(&self, name: String) -> Self {
        Self { name, ..self.clone() }
    }

    /// Returns true if `name` is the output's name or alias.
    fn is_called(&self, name: &str) -> bool {
        self.name == name || self.alias.as_deref() == Some(name)
    }

    /// Returns the ops for an epoch.
    pub(super) fn ops(&self, epoch: Epoch) -> Result<Ops, Error> {
        let mut ops: Ops = vec![];
        for step in &self.steps {
            if step.keep > ops.len() {
                let (keep, found) = (step.keep, ops.len());
                let error =
                    fail!(Pipeline, "it branches after {keep} ops, but the list has {found}");
                return Err(of_output(error, &self.name));
            }
            ops.truncate(step.keep);
            ops.extend(step.pipeline.ops(epoch, &self.name)?);
        }
        Ok(ops)
    }

    /// Returns true if nothing was asked of the field: no ops, no declaration, no form of its batches.
    fn is_plain(&self) -> bool {
        self.steps.is_empty()
            && self.component_ops.is_empty()
            && self.collate.is_none()
            && self.target.is_none()
            && self.array == ArrayRequest::default()
    }

    /// Returns true if a list of the output is by epoch.
    pub(super) fn is_by_epoch(&self) -> bool {
        let own = self.steps.iter().map(|step| &step.pipeline);
        let mut all = own.chain(self.component_ops.iter().map(|(_, pipeline)| pipeline));
        all.any(Pipeline::is_by_epoch)
    }
}

impl OutputRequest {
    /// Returns the outputs, in order.
    ///
    /// # Errors
    ///
    /// If a name is unknown or taken, draws are shared in a circle, or nothing is left.
    pub(super) fn resolve(mut self, source: &dyn Source) -> Result<Vec<OutputSpec>, Error> {
        self.check_fields(source)?;
        let known = known_fields(source)?;
        let mut outputs = self.of_fields(source, &known);
        self.declare_known_targets(source)?;
        self.add_targets((source, &known), &mut outputs)?;
        let mut shares = vec![];
        for extra in std::mem::take(&mut self.extras) {
            add(&mut outputs, &mut shares, extra)?;
        }
        for (output, with) in &self.shares {
            let (output, with) = (find(&outputs, output)?, find(&outputs, with)?);
            if outputs[output].is_branch {
                let reason = "it is a branch, which always draws as its output does";
                return Err(shared(&outputs, output, with, reason));
            }
            shares.retain(|&(sharing, _)| sharing != output);
            shares.push((output, with));
        }
        share_draws(&mut outputs, &shares)?;
        for (output, collate) in self.collates {
            let output = find(&outputs, &output)?;
            outputs[output].collate = Some(collate);
        }
        for (component, output, pipeline) in self.component_pipelines {
            let count = source.components();
            set_component_ops(&mut outputs, count, component, &output, pipeline)?;
        }
        outputs.retain(|output| !self.without.iter().any(|name| output.is_called(name)));
        leave_out_unmeasured(source, &mut outputs);
        warn_of_stored_targets((source, &known), &outputs);
        if outputs.is_empty() {
            Err(fail!(Parameter, "no field is left to load"))
        } else {
            Ok(outputs)
        }
    }

    /// Replaces the names that `rename` has other names for.
    pub(super) fn rename<'a>(&mut self, rename: impl Fn(&str) -> Option<&'a str>) {
        let pipelines = self.pipelines.iter_mut().map(|(name, _)| name);
        let of_components = self.component_pipelines.iter_mut().map(|(_, name, _)| name);
        let left_out = self.without.iter_mut().chain(&mut self.masks);
        let modes = self.read_modes.iter_mut().map(|(name, _)| name);
        let arrays = self.arrays.iter_mut().map(|(name, _)| name);
        let extras = self.extras.iter_mut().map(|extra| &mut extra.of);
        let shares = self.shares.iter_mut().flat_map(|(output, with)| [output, with]);
        let collates = self.collates.iter_mut().map(|(name, _)| name);
        let targets = self.targets.iter_mut().map(|(name, _)| name);
        let fields = pipelines.chain(of_components).chain(left_out).chain(modes).chain(arrays);
        for name in fields.chain(extras).chain(shares).chain(collates).chain(targets) {
            if let Some(other) = rename(name) {
                other.clone_into(name);
            }
        }
    }

    fn check_fields(&self, source: &dyn Source) -> Result<(), Error> {
        let named = self.pipelines.iter().map(|(name, _)| name);
        let modes = self.read_modes.iter().map(|(name, _)| name);
        let arrays = self.arrays.iter().map(|(name, _)| name);
        let mut named = named.chain(&self.without).chain(&self.masks).chain(modes).chain(arrays);
        if let Some(name) = named.find(|name| source.field_index(name).is_none()) {
            return Err(no_such_field(source, name));
        }
        let is_image = |name: &str| {
            let field = source.field_index(name);
            field.is_some_and(|field| source.fields()[field].kind.is_image())
        };
        if let Some(field) = self.masks.iter().find(|name| !is_image(name)) {
            return Err(of_field(fail!(Pipeline, "only a field of images can be a mask"), field));
        }
        let mut modes = self.read_modes.iter();
        if let Some((field, _)) = modes.find(|(name, _)| !is_image(name)) {
            let error = fail!(Pipeline, "only a field of images has a read mode");
            return Err(of_field(error, field));
        }
        for (field, request) in &self.arrays {
            let Some(index) = source.field_index(field) else { continue };
            request.check(&source.fields()[index].kind).map_err(|error| of_field(error, field))?;
        }
        for (index, (second, _)) in self.pipelines.iter().enumerate() {
            let field = source.field_index(second);
            let mut before = self.pipelines[..index].iter();
            if let Some((first, _)) = before.find(|(first, _)| source.field_index(first) == field) {
                let error = fail!(
                    Field,
                    "pipelines for {first} and {second}, which are names of one field: keep one of them"
                );
                return Err(error.of_field(first));
            }
        }
        Ok(())
    }

    /// Declares the targets that the dataset knows of, if that was asked for.
    fn declare_known_targets(&mut self, source: &dyn Source) -> Result<(), Error> {
        if !self.auto_targets {
            return Ok(());
        }
        let known = Targets::of_dataset(source)?;
        let (image, known) = known.ok_or_else(|| {
            fail!(
                Parameter,
                "the dataset marks no field as boxes, keypoints, masks or classes of objects: declare them in `targets`"
            )
        })?;
        match self.targets.iter_mut().find(|(name, _)| *name == image) {
            Some((_, declared)) => declared.add_missing(known),
            None => self.targets.push((image, known)),
        }
        Ok(())
    }

    /// Marks the outputs that follow an image, and the images that they follow.
    fn add_targets(
        &self,
        (source, known): (&dyn Source, &ObjectFields),
        outputs: &mut [OutputSpec],
    ) -> Result<(), Error> {
        let field_of =
            |name: &str| source.field_index(name).ok_or_else(|| no_such_field(source, name));
        for (image, targets) in &self.targets {
            let image = field_of(image)?;
            let refused = |field: usize, error| of_field(error, source.field_name(field));
            let fields = targets.names().map(field_of).collect::<Result<Vec<_>, _>>()?;
            let request = TargetRequest::new((source, known), image, targets, fields);
            let request = request.map_err(|(field, error)| refused(field, error))?;
            if outputs[image].targets.is_some() || outputs[image].target.is_some() {
                return Err(refused(
                    image,
                    fail!(
                        Pipeline,
                        "declare all targets of an image in one call; an image can't be a target itself"
                    ),
                ));
            }
            if self.component_pipelines.iter().any(|(_, name, _)| outputs[image].is_called(name)) {
                return Err(refused(
                    image,
                    fail!(
                        Pipeline,
                        "an image with targets has one list for all components of the dataset"
                    ),
                ));
            }
            for (field, target) in &request.fields {
                let output = &mut outputs[*field];
                if output.target.is_some() {
                    return Err(refused(
                        *field,
                        fail!(Pipeline, "a field is a target of one image"),
                    ));
                }
                if self.component_pipelines.iter().any(|(_, name, _)| output.is_called(name)) {
                    return Err(refused(
                        *field,
                        fail!(Pipeline, "a target has one list for all components of the dataset"),
                    ));
                }
                output.target = Some((image, target.clone()));
                let is_read_otherwise = self
                    .read_modes
                    .iter()
                    .any(|(name, mode)| output.is_called(name) && *mode != ImageReadMode::Index);
                if matches!(target, Target::Mask { .. }) && is_read_otherwise {
                    return Err(refused(
                        *field,
                        fail!(
                            Pipeline,
                            "a mask is read as an index, from 0 to 255: leave out its `read_mode`, or read it as an \
                             image that is no target"
                        ),
                    ));
                }
                if let Target::Mask { .. } = target {
                    (output.is_mask, output.read_mode) = (true, ImageReadMode::Index);
                }
            }
            outputs[image].targets = Some(Arc::new(request));
        }
        Ok(())
    }

    /// Returns what is declared about the arrays of a field.
    fn array(&self, is_its_own: impl Fn(&str) -> bool) -> ArrayRequest {
        let own = self.arrays.iter().filter(|(name, _)| is_its_own(name));
        own.fold(ArrayRequest::default(), |known, (_, more)| ArrayRequest {
            axes: more.axes.clone().or(known.axes),
            elements: more.elements.clone().or(known.elements),
            audio: if more.elements.is_some() { more.audio } else { known.audio },
        })
    }

    fn of_fields(&self, source: &dyn Source, known: &ObjectFields) -> Vec<OutputSpec> {
        let fields = source.fields().iter().enumerate();
        let outputs = fields.map(|(field, spec)| {
            let is_its_own = |name: &str| source.field_index(name) == Some(field);
            let given = self.pipelines.iter().find(|(name, _)| is_its_own(name));
            let name = source.field_name(field).to_owned();
            let steps =
                given.map(|(_, list)| PipelineEdit { of: field, keep: 0, pipeline: list.clone() });
            let read_mode = self.read_modes.iter().rfind(|(name, _)| is_its_own(name));
            // Indices are class numbers, whether the field is called a mask or not.
            let is_mask = self.masks.iter().any(|name| is_its_own(name))
                || match read_mode {
                    Some((_, mode)) => *mode == ImageReadMode::Index,
                    None => known.get(&spec.name) == Some(ObjectField::Mask),
                };
            let of_masks = if is_mask { ImageReadMode::Index } else { ImageReadMode::Rgb };
            OutputSpec {
                alias: Some(spec.name.clone()).filter(|stored| *stored != name),
                title: format!("field {}", Escaped(&name)),
                name,
                field,
                draws: DrawsOf { field, view: 0 },
                collate: None,
                component_ops: vec![],
                is_mask,
                read_mode: read_mode.map_or(of_masks, |(_, mode)| *mode),
                array: self.array(is_its_own),
                target: None,
                targets: None,
                steps: steps.into_iter().collect(),
                own: field,
                is_branch: false,
            }
        });
        outputs.collect()
    }
}

/// Leaves out the fields of bytes whose longest value is unknown, and of which nothing was asked, with one warning for
/// all. They stay where nothing else is left.
fn leave_out_unmeasured(source: &dyn Source, outputs: &mut Vec<OutputSpec>) {
    let is_unmeasured = |output: &OutputSpec| {
        let is_bytes =
            matches!(source.fields()[output.field].kind, FieldKind::Bytes | FieldKind::Json);
        // Video files are refused without clips.
        let is_left_out = is_bytes && !source.facts().is_video(output.field);
        is_left_out && output.is_plain() && source.longest(output.field).is_none()
    };
    let count_of = |field: usize| outputs.iter().filter(|output| output.field == field).count();
    // A field with views was asked for.
    let left_out: Vec<usize> = (0..outputs.len())
        .filter(|&index| is_unmeasured(&outputs[index]) && count_of(outputs[index].field) == 1)
        .collect();
    if left_out.is_empty() || left_out.len() == outputs.len() {
        return;
    }
    let names = left_out.iter().map(|&index| Escaped(&outputs[index].name).to_string());
    let names: Vec<String> = names.collect();
    let has_audio = left_out.iter().any(|&index| source.facts().is_audio(outputs[index].field));
    let audio = if has_audio {
        "; audio files are decoded once their sample rate is declared (`audio`, in Python and in pipeline files `arrays`)"
    } else {
        ""
    };
    warn(format_args!(
        "{}the longest value of {} is unknown, so {} left out of the batches: to have one, set its `collate`, such as \
         `ragged`, with the largest length (`to`); `without` leaves it out without this warning{audio}",
        named(source),
        names.join(", "),
        if names.len() == 1 { "it is" } else { "they are" },
    ));
    let mut index = 0..;
    outputs.retain(|_| index.next().is_none_or(|index| !left_out.contains(&index)));
}

/// Warns of boxes, keypoints and masks of objects of which nothing was asked: they come as they are stored, whatever
/// the ops of their image do.
fn warn_of_stored_targets((source, known): (&dyn Source, &ObjectFields), outputs: &[OutputSpec]) {
    let is_tensor =
        |output: &&OutputSpec| output.is_plain() && !source.fields()[output.field].kind.is_image();
    let has_positions = |output: &&OutputSpec| {
        let field = known.get(&source.fields()[output.field].name);
        field.is_some_and(ObjectField::has_positions)
    };
    let stored = outputs.iter().filter(is_tensor).filter(has_positions);
    let names: Vec<String> = stored.map(|output| Escaped(&output.name).to_string()).collect();
    if !names.is_empty() {
        warn(format_args!(
            "{}{} {} stored bytes, which the ops of the image do not move: set `targets` to `auto` for all that the \
             dataset knows of its objects, or declare them; `without` leaves them out without this warning",
            named(source),
            names.join(", "),
            if names.len() == 1 { "comes as its" } else { "come as their" },
        ));
    }
}

/// Returns the beginning of a warning of a dataset that has a path.
pub(super) fn named(source: &dyn Source) -> String {
    let path = source.paths().next();
    path.map_or_else(String::new, |path| format!("{}: ", Escaped(&path.to_string_lossy())))
}

/// Returns what the dataset says of its fields.
pub(super) fn known_fields(source: &dyn Source) -> Result<ObjectFields, Error> {
    Ok(source.object_fields()?.unwrap_or_default())
}

/// Refuses lists by epoch that would not be compiled for each epoch.
pub(super) fn check_recompile(
    outputs: &[OutputSpec],
    recompile: Option<bool>,
) -> Result<(), Error> {
    let by_epoch = || outputs.iter().find(|output| output.is_by_epoch());
    match by_epoch().filter(|_| recompile == Some(false)) {
        Some(output) => {
            let error = fail!(
                Parameter,
                "its list is by epoch, but `recompile` is false: remove that setting, or give one fixed list"
            );
            Err(of_output(error, &output.name))
        }
        None => Ok(()),
    }
}

/// Names the output of a field as the field is stored. The common name stays another name of the output.
pub(super) fn name_by_field(outputs: &mut [OutputSpec], source: &dyn Source, field: usize) {
    let (stored, common) = (&source.fields()[field].name, source.field_name(field));
    // Views have no other name.
    let own = outputs.iter_mut().find(|output| output.field == field && output.name == common);
    if let Some(output) = own.filter(|_| *stored != common) {
        (output.name, output.alias) = (stored.clone(), Some(common.to_owned()));
        output.title = format!("field {}", Escaped(stored));
    }
}

/// Returns the outputs with the ops of `name` replaced, also in its branches.
pub(super) fn replaced(
    outputs: &[OutputSpec],
    name: &str,
    pipeline: Pipeline,
) -> Result<Vec<OutputSpec>, Error> {
    let index = find(outputs, name)?;
    let mut outputs = outputs.to_vec();
    let own = outputs[index].own;
    let mut is_new = true;
    for step in outputs.iter_mut().flat_map(|output| &mut output.steps) {
        if step.of == own {
            step.pipeline = pipeline.clone();
            is_new = false;
        }
    }
    if is_new {
        outputs[index].steps.push(PipelineEdit { of: own, keep: 0, pipeline });
    }
    Ok(outputs)
}

/// Returns the error of two outputs of one name.
pub(super) fn name_taken(name: &str) -> Error {
    of_output(fail!(Field, "a field or another output has this name"), name)
}

/// Adds a view or a branch.
fn add(
    outputs: &mut Vec<OutputSpec>,
    shares: &mut Vec<(usize, usize)>,
    extra: ExtraOutput,
) -> Result<(), Error> {
    let ExtraOutput { name, of, after, pipeline } = extra;
    if outputs.iter().any(|output| output.is_called(&name)) {
        return Err(name_taken(&name));
    }
    let parent = find(outputs, &of)?;
    let (field, own) = (outputs[parent].field, outputs.len());
    let OutputSpec { is_mask, read_mode, ref array, .. } = outputs[parent];
    let array = array.clone();
    if outputs[parent].target.is_some() {
        let error = fail!(
            Pipeline,
            "a target follows the image of its field, and has no views or branches"
        );
        return Err(of_field(error, &of));
    }
    let (title_name, title_of) = (Escaped(&name), Escaped(&of));
    let (title, steps) = match after {
        None => (
            format!("view {title_name} of {title_of}"),
            vec![PipelineEdit { of: own, keep: 0, pipeline }],
        ),
        Some(keep) => {
            shares.push((outputs.len(), parent));
            let mut steps = outputs[parent].steps.clone();
            steps.push(PipelineEdit { of: own, keep, pipeline });
            (format!("branch {title_name} of {title_of}, after {keep} op(s)"), steps)
        }
    };
    let views = outputs.iter().filter(|output| output.field == field && !output.is_branch);
    let draws = DrawsOf { field, view: views.count() };
    let is_branch = after.is_some();
    let (alias, collate, component_ops) = (None, None, vec![]);
    outputs.push(OutputSpec {
        name,
        alias,
        field,
        draws,
        title,
        collate,
        component_ops,
        is_mask,
        read_mode,
        array,
        target: None,
        targets: None,
        steps,
        own,
        is_branch,
    });
    Ok(())
}

/// Sets other ops of an output for the samples of one component of `count`.
fn set_component_ops(
    outputs: &mut [OutputSpec],
    count: usize,
    component: usize,
    output: &str,
    pipeline: Pipeline,
) -> Result<(), Error> {
    let index = find(outputs, output)?;
    let own = outputs[index].own;
    let is_branched = outputs.iter().any(|output| {
        output.is_branch && output.own != own && output.steps.iter().any(|step| step.of == own)
    });
    let error = if count < 2 {
        fail!(Pipeline, "the dataset has no components: they come from mix, concat or interleave")
    } else if component >= count {
        fail!(Pipeline, "the dataset has {count} components, numbered from 0")
    } else if outputs[index].is_branch || is_branched {
        fail!(Pipeline, "a branch and the output it branches from need one list for all components")
    } else {
        outputs[index].component_ops.push((component, pipeline));
        return Ok(());
    };
    Err(of_component(error, output, component))
}

/// Returns the error of the ops of a component that don't fit those of the output.
pub(super) fn of_component(error: Error, output: &str, component: usize) -> Error {
    of_output(error.context(format_args!("ops of component {component}")), output)
}

fn find(outputs: &[OutputSpec], name: &str) -> Result<usize, Error> {
    outputs.iter().position(|output| output.is_called(name)).ok_or_else(|| {
        let known = listed(outputs.iter().map(|output| output.name.as_str()));
        fail!(Field, "no output named {name}; available: {known}").of_field(name)
    })
}

/// Returns the error for an unknown field, with all field names and the names they are stored under.
pub(super) fn no_such_field(source: &dyn Source, name: &str) -> Error {
    let known =
        source.fields().iter().enumerate().map(|(field, stored)| match source.field_name(field) {
            name if name == stored.name => name.to_owned(),
            name => format!("{name} (stored as {})", stored.name),
        });
    let known = known.collect::<Vec<_>>().join(", ");
    fail!(Field, "no field named {name}; available: {known}")
        .of_field(name)
        .help("`fuseloop info FILE` shows the file's fields")
}

/// Returns names separated by commas.
pub(super) fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

/// Sets the draws of each sharing output to those of the output at the end of its chain.
fn share_draws(outputs: &mut [OutputSpec], shares: &[(usize, usize)]) -> Result<(), Error> {
    let own: Vec<DrawsOf> = outputs.iter().map(|output| output.draws).collect();
    let with =
        |output| shares.iter().find(|(sharing, _)| *sharing == output).map(|&(_, with)| with);
    for &(output, first) in shares {
        let (mut last, mut links) = (first, 1);
        while let Some(next) = with(last) {
            if links > shares.len() {
                return Err(shared(outputs, output, first, "the sharing forms a cycle"));
            }
            (last, links) = (next, links + 1);
        }
        outputs[output].draws = own[last];
    }
    Ok(())
}

fn shared(outputs: &[OutputSpec], output: usize, with: usize, reason: &'static str) -> Error {
    let (output, with) = (&outputs[output].name, &outputs[with].name);
    fail!(Pipeline, "output {output} can't share the draws of {with}: {reason}").of_field(output)
}
