"""The files that `shardql new` copies into a new project."""
