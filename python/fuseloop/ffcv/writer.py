"""Writes .beton files."""


class DatasetWriter:
    pass
