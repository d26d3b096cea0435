-- Schema version 6: the last queue configuration.
CREATE TABLE queues (
  one     INTEGER PRIMARY KEY CHECK (one = 1),
  epoch   INTEGER NOT NULL, -- of the write that created it
  counter INTEGER NOT NULL,
  record  BLOB NOT NULL
) STRICT;
