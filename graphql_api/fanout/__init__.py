"""Does what a plan says: rounds of reads, one merged page; decides nothing."""
