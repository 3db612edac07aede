//! Tar shards as a whole: against real writers, hostile ones, and a second reader.
