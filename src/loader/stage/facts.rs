//! The facts of a stage for the rest of the loader: its fields, plans, names and fingerprints, and the text of `explain`.

use super::{LoaderStage, StageShared};
use crate::batch::TensorSpec;
use crate::decode::{Decoder, ImageReadMode};
use crate::jit::Kernel;
use crate::loader::clips::ClipSource;
use crate::loader::collate::Collated;
use crate::loader::cursor::PlanPrint;
use crate::loader::image_lists::ImageList;
use crate::loader::target_rows::TargetGroup;
use crate::loader::work::{FieldPlan, ImageRow, OutputPlan};
use crate::plan::batch_ops;
use crate::sample::{Epoch, Limits, SampleId, SampleRef};
use crate::source::FrameSource;
use fuseloop_ops::internals::SampleKey;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

/// Says what later pass number `pass` over the finished batches of an output is for.
fn pass_words(output: &OutputPlan, pass: usize) -> String {
    match output.work {
        FieldPlan::Image(_) => format!("{}\n", batch_ops::why_later(output.work.ops(), pass)),
        _ => format!("after pass {} over the memory of the batch: ", pass + 1),
    }
}

impl LoaderStage {
    /// Returns the fields that are read.
    pub(in crate::loader) fn fields(&self) -> impl Iterator<Item = usize> {
        let members = self.targets.iter().flat_map(|group| &group.members);
        self.fields.iter().map(|(field, _)| *field).chain(members.map(|member| member.field))
    }

    /// Returns the plans of the outputs.
    pub(in crate::loader) fn plans(&self) -> &[OutputPlan] {
        &self.outputs
    }

    /// Returns the fingerprint of the plan: the outputs, their ops and the rules they run by.
    pub(in crate::loader) fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Returns the short fingerprints of the outputs and their ops.
    pub(in crate::loader) fn prints(&self) -> &[PlanPrint] {
        &self.prints
    }

    /// Returns the epoch that the pipelines were built for.
    pub(in crate::loader) fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub(in crate::loader) fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    /// Returns the number of loop bodies that could not be compiled.
    pub(in crate::loader) fn failed_loops(&self) -> usize {
        let plans = self.outputs.iter().flat_map(OutputPlan::all_plans);
        let failed = plans.map(|work| match work {
            FieldPlan::Image(kernel) => kernel.failed_loops().0,
            _ => 0,
        });
        failed.sum()
    }

    pub(in crate::loader) fn compile_time(&self) -> Duration {
        let plans = self.outputs.iter().flat_map(OutputPlan::all_plans);
        let times = plans.map(|work| match work {
            FieldPlan::Image(kernel) => kernel.compile_time(),
            _ => Duration::ZERO,
        });
        times.sum()
    }

    /// Returns the image output of this name: its index, the index of its field, and its kernel.
    pub(in crate::loader) fn image(&self, name: &str) -> Option<(usize, usize, Arc<Kernel>)> {
        self.outputs.iter().enumerate().find_map(|(k, output)| match &output.work {
            FieldPlan::Image(kernel)
                if output.name == name || output.alias.as_deref() == Some(name) =>
            {
                Some((k, output.field, Arc::clone(kernel)))
            }
            _ => None,
        })
    }

    /// Returns what the images of output `k` are read as.
    pub(in crate::loader) fn read_mode(&self, k: usize) -> ImageReadMode {
        self.outputs[k].read_mode
    }

    /// Returns the row of output `k`, if it has several images.
    pub(in crate::loader) fn image_row(&self, k: usize) -> Option<&ImageRow> {
        self.outputs[k].images.as_ref()
    }

    /// Returns the source whose samples are clips, if they are.
    pub(in crate::loader) fn clips(&self) -> Option<&ClipSource> {
        self.setup.clips.as_deref()
    }

    /// Returns the source whose samples have frames that it chooses, if some fields have.
    pub(in crate::loader) fn frame_fields(&self) -> Option<&FrameSource> {
        self.setup.frames.as_ref()
    }

    /// Returns the list of images that a field is, and its number; `None` if the field is none.
    pub(in crate::loader) fn list_of(&self, field: usize) -> Option<(usize, ImageList)> {
        let mut lists = self.setup.lists.iter().enumerate();
        lists.find_map(|(number, (list, images))| (*list == field).then_some((number, *images)))
    }

    /// Returns the key of the draws of a sample, by which its clips are chosen.
    pub(in crate::loader) fn key_of_sample(&self, epoch: Epoch, sample: SampleId) -> SampleKey {
        self.visit_key(epoch, SampleRef::once(sample))
    }

    /// Returns the key of the draws of output `k` for image number `index` of a sample.
    pub(in crate::loader) fn key_of_image(
        &self,
        (epoch, sample): (Epoch, SampleId),
        k: usize,
        index: usize,
    ) -> SampleKey {
        let key = self.key_of_sample(epoch, sample);
        let key = match (&self.outputs[k].images, &self.setup.clips) {
            (Some(ImageRow::List(list)), _) => list.key(key, index),
            (Some(ImageRow::Clip { .. }), Some(clips)) => clips.key(key, index),
            _ => key,
        };
        self.outputs[k].draws.key(key)
    }

    /// Returns the names of the outputs that are images.
    pub(in crate::loader) fn images(&self) -> impl Iterator<Item = &str> {
        let images =
            self.outputs.iter().filter(|output| matches!(output.work, FieldPlan::Image(_)));
        images.map(|output| &*output.name)
    }

    /// Returns the names of all outputs.
    pub(in crate::loader) fn names(&self) -> impl Iterator<Item = &str> {
        self.outputs.iter().map(|output| &*output.name)
    }

    /// Returns the kernel of output `k`, an image, for the samples of a component.
    pub(in crate::loader) fn kernel_of(&self, k: usize, component: usize) -> Option<Arc<Kernel>> {
        match self.outputs[k].work_of(component) {
            FieldPlan::Image(kernel) => Some(Arc::clone(kernel)),
            _ => None,
        }
    }

    /// Returns the targets that follow output `k`, an image, if any were declared.
    pub(in crate::loader) fn targets_of(&self, k: usize) -> Option<&TargetGroup> {
        self.targets.iter().find(|group| group.image == k)
    }

    /// Returns the image that output `k` follows: its output and its field; `None` if the output follows none.
    pub(in crate::loader) fn followed_by(&self, k: usize) -> Option<(usize, usize)> {
        let follows = |group: &&TargetGroup| group.members.iter().any(|own| own.output == Some(k));
        self.targets.iter().find(follows).map(|group| (group.image, group.field))
    }

    /// Returns the state that the stages of all epochs share.
    pub(in crate::loader) fn shared(&self) -> &StageShared {
        &self.shared
    }

    /// Returns the limits on images.
    pub(in crate::loader) fn limits(&self) -> &Limits {
        &self.setup.decode.limits
    }

    /// Creates a decoder with the workers' options.
    pub(in crate::loader) fn decoder(&self) -> Decoder {
        Decoder::new(self.setup.decode).warning(&self.setup.unread)
    }

    pub(in crate::loader) fn explain(&self) -> String {
        let mut text = self.device_words();
        if self.setup.scaled_decode {
            text += "scaled decode: large JPEGs at 1/2, 1/4 or 1/8 of their size, where a resize comes first\n";
        }
        for output in self.outputs.iter() {
            let _ = writeln!(text, "{}:", output.title);
            if let Some(images) = &output.images {
                let _ = writeln!(text, "{images}");
            }
            if let Some(target) = self.target_words(&output.name) {
                let end = if matches!(output.work, FieldPlan::Image(_)) { "\n" } else { ", " };
                text += &target;
                text += end;
            }
            text.push_str(&output.work.explain());
            for (pass, later) in (1..).zip(&output.later) {
                text += &pass_words(output, pass);
                text += &later.explain();
            }
            text.extend(output.collation.as_ref().map(Collated::explain));
            for (component, work) in &output.by_component {
                let _ = write!(
                    text,
                    "{}, samples of component {component}:\n{}",
                    output.title,
                    work.explain()
                );
            }
        }
        text
    }

    /// Describes the output of this name, if it is a target of an image.
    pub(in crate::loader) fn target_words(&self, name: &str) -> Option<String> {
        let k = self.outputs.iter().position(|output| output.name == name)?;
        let planned = self.outputs[k].target.as_ref()?;
        let (image, _) = self.followed_by(k)?;
        Some(planned.target.describe(&self.outputs[image].name))
    }

    /// Describes where outputs with [`ToDevice`](fuseloop_ops::ToDevice) are computed; empty if there
    /// are none.
    fn device_words(&self) -> String {
        let placement = self.shared.device_choice.placement();
        let on = self.outputs.iter().filter(|output| output.device_output.is_some());
        let on = on.map(|output| output.name.as_str()).collect::<Vec<_>>().join(", ");
        match (&placement.fallback, on.is_empty()) {
            (None, true) => String::new(),
            (Some(_), _) => format!("device: {placement}\n"),
            (None, false) => format!("device: {placement} ({on})\n"),
        }
    }
}
