//! `tf.train.Example` and `SequenceExample`, as in TensorFlow's `example.proto` and `feature.proto`.
//!
//! The only field of an `Example` has the same number and type as the context of a `SequenceExample`, so
//! both are decoded as the latter. Maps are ordered by key, so that nothing depends on a hash.

use std::collections::BTreeMap;

/// Either kind of example.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Example {
    #[prost(message, optional, tag = "1")]
    pub(crate) context: Option<Features>,
    #[prost(message, optional, tag = "2")]
    pub(crate) lists: Option<FeatureLists>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Features {
    #[prost(btree_map = "string, message", tag = "1")]
    pub(crate) feature: BTreeMap<String, ExampleFeature>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct FeatureLists {
    #[prost(btree_map = "string, message", tag = "1")]
    pub(crate) list: BTreeMap<String, FeatureList>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct FeatureList {
    #[prost(message, repeated, tag = "1")]
    pub(crate) feature: Vec<ExampleFeature>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ExampleFeature {
    #[prost(oneof = "Kind", tags = "1, 2, 3")]
    pub(crate) kind: Option<Kind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Kind {
    #[prost(message, tag = "1")]
    Bytes(BytesList),
    #[prost(message, tag = "2")]
    Floats(FloatList),
    #[prost(message, tag = "3")]
    Ints(Int64List),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct BytesList {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub(crate) value: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct FloatList {
    #[prost(float, repeated, tag = "1")]
    pub(crate) value: Vec<f32>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Int64List {
    #[prost(int64, repeated, tag = "1")]
    pub(crate) value: Vec<i64>,
}
