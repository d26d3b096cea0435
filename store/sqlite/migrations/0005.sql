-- Schema version 5: the policy record with run-time statistics, and the ended attempts that it does not include yet.
CREATE TABLE policy (
  one     INTEGER PRIMARY KEY CHECK (one = 1),
  epoch   INTEGER NOT NULL, -- of the write that created it
  counter INTEGER NOT NULL,
  record  BLOB NOT NULL
) STRICT;
CREATE TABLE unlearned (
  epoch   INTEGER NOT NULL,
  counter INTEGER NOT NULL,
  PRIMARY KEY (epoch, counter)
) STRICT, WITHOUT ROWID;
