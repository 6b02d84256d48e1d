"""The files that `shardql new` begins a project with, as they are."""
