-- The queues as they were described last, version 6.
CREATE TABLE queues (
  one     INTEGER PRIMARY KEY CHECK (one = 1),
  epoch   INTEGER NOT NULL, -- of the write that it is of
  counter INTEGER NOT NULL,
  record  BLOB NOT NULL
) STRICT;
