//! Precompiled row functions that compiled loops call.
