"""How results come into a store: records that tasks put, folded into shards of its arrays.

A commit, step by step:

1. A worker checks, at most once a second, that it is not fenced off, and writes finished rows as a
   *record*: one file, which appears atomically and is durable (`records.write_record`). From here
   on the rows are committed: readers have them, and no task computes them again.
2. It removes the checkpoints of these rows.
3. Once all tasks of a row of shards are done, the coordinator *folds* its records: every shard that
   they change is grown and replaced, array by array. Then the directories are synced, and only then
   come the shards of ``sample_count``, by which a run counts as computed.
4. It writes into the group's ledger, ``folded/GROUP.json``, a checksum of each of these files.
5. It removes the records.

What a process leaves that is killed,

- within step 1: an unfinished file, which the next lease holder removes. The runs resume from their
  last checkpoints.
- before or within step 2: checkpoints of committed rows, which are ignored. They go with all others
  when the study is complete.
- within step 3: shards of which some are grown. The records are still there; readers take what they
  have over what the shards have, and the next lease holder folds them again, to the same values.
- before or within step 4: folded rows that the ledger lacks. The next fold of their records, which
  are still there, writes it.
- within step 5: some of the records, which are folded again.

A worker that was suspended in step 1, and wakes when its session is over, puts a record that nobody
takes. A coordinator that wakes when another one has its lease is stopped by the check before each
step that matters, or fails to complete it: see `records.put_durably` and `fold.write_shard`.
"""
