-- What leaders learn from, version 5: their one policy record, and the attempts that ended
-- and that it does not know yet.
CREATE TABLE policy (
  one     INTEGER PRIMARY KEY CHECK (one = 1),
  epoch   INTEGER NOT NULL, -- of the write that it is of
  counter INTEGER NOT NULL,
  record  BLOB NOT NULL
) STRICT;
CREATE TABLE unlearned (
  epoch   INTEGER NOT NULL,
  counter INTEGER NOT NULL,
  PRIMARY KEY (epoch, counter)
) STRICT, WITHOUT ROWID;
