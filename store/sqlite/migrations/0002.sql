-- Schema version 2: the cluster of these records. It is created once, and nodes accept only a scheduler of this
-- cluster.
CREATE TABLE cluster (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  id  TEXT NOT NULL CHECK (id <> '')
) STRICT;
