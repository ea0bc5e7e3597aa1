"""How results come into a store: records that tasks put, folded into shards of its arrays."""
