"""How a stored table follows its catalog: the record that a table keeps about itself, and its differences."""

from graphql_api.evolution.table_differences import MAKE_IT, RENAME_IT, conflicts, missing, projection_words
from graphql_api.evolution.table_record import META_KEY, TABLE_FORMAT, admit_table, in_words, index_changes, space_of

__all__ = [
    "MAKE_IT",
    "META_KEY",
    "RENAME_IT",
    "TABLE_FORMAT",
    "admit_table",
    "conflicts",
    "in_words",
    "index_changes",
    "missing",
    "projection_words",
    "space_of",
]
