"""How results get into a store: tasks write records, which are folded into shards of its arrays.

A commit, step by step:

1. A worker checks, at most once a second, that it is not fenced off, and writes finished rows as a
   *record*: one file, which appears atomically and is durable (`records.write_record`). From now on
   the rows are committed: readers see them, and no task computes them again.
2. The worker removes the checkpoints of these rows.
3. Once all tasks of a row of shards are done, the coordinator *folds* its records: it extends and
   replaces each shard that they change, array by array. Then it syncs the directories, and only
   then writes the shards of ``sample_count``, by which a run counts as computed.
4. It writes a checksum of each of these files into the group's ledger, ``folded/GROUP.json``.
5. It removes the records.

What is left if a process is killed

- within step 1: an unfinished file, which the next lease holder removes. The runs resume from their
  last checkpoints.
- before or within step 2: checkpoints of committed rows, which are ignored. They are removed with
  all others when the study is complete.
- within step 3: shards of which some are extended. The records still exist. Their values take
  precedence over those of the shards, and the next lease holder folds them again, with the same
  result.
- before or within step 4: folded rows that are not in the ledger. Their records still exist, and
  the next fold writes the ledger.
- within step 5: some of the records, which are folded again.

A worker that is suspended in step 1, and wakes after its session has ended, writes a record that is
ignored. A coordinator that wakes after another one has taken the lease is stopped by the check
before each critical step, or cannot complete it: see `records.put_durably` and `fold.write_shard`.
"""
