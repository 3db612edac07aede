//! `tf.train.Example` and `SequenceExample`, as TensorFlow's `example.proto` and `feature.proto` have
//! them.
//!
//! An `Example`'s only field has the number and the type of a `SequenceExample`'s context, so both are
//! read as the latter. Maps are in the order of their keys, so that nothing depends on a hash.

use std::collections::BTreeMap;

/// Either kind of example.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Example {
    #[prost(message, optional, tag = "1")]
    pub(super) context: Option<Features>,
    #[prost(message, optional, tag = "2")]
    pub(super) lists: Option<FeatureLists>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Features {
    #[prost(btree_map = "string, message", tag = "1")]
    pub(super) feature: BTreeMap<String, Feature>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct FeatureLists {
    #[prost(btree_map = "string, message", tag = "1")]
    pub(super) list: BTreeMap<String, FeatureList>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct FeatureList {
    #[prost(message, repeated, tag = "1")]
    pub(super) feature: Vec<Feature>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Feature {
    #[prost(oneof = "Kind", tags = "1, 2, 3")]
    pub(super) kind: Option<Kind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Kind {
    #[prost(message, tag = "1")]
    Bytes(BytesList),
    #[prost(message, tag = "2")]
    Floats(FloatList),
    #[prost(message, tag = "3")]
    Ints(Int64List),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct BytesList {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub(super) value: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct FloatList {
    #[prost(float, repeated, tag = "1")]
    pub(super) value: Vec<f32>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Int64List {
    #[prost(int64, repeated, tag = "1")]
    pub(super) value: Vec<i64>,
}
