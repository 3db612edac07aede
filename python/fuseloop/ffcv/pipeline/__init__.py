"""Operations, and how they are put together."""

from .compiler import Compiler
from .pipeline import Pipeline
from .pipeline_spec import PipelineSpec

__all__ = ["Compiler", "Pipeline", "PipelineSpec"]
