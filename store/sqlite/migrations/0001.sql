-- Schema version 1: the records of a leader. A record is sealed protobuf bytes. The other columns are for lookups and
-- constraints.

-- The leader, and the highest arrival ever used: one row.
CREATE TABLE leader (
  one     INTEGER PRIMARY KEY CHECK (one = 1),
  epoch   INTEGER NOT NULL,
  holder  TEXT NOT NULL,
  arrival INTEGER NOT NULL
) STRICT;
INSERT INTO leader VALUES (1, 0, '', 0);

-- A pruned job keeps its row without a record, because its ID stays used.
CREATE TABLE job (
  seq              INTEGER PRIMARY KEY,
  id               TEXT NOT NULL,
  revision         INTEGER NOT NULL,
  writer_epoch     INTEGER NOT NULL,
  writer_counter   INTEGER NOT NULL,
  owner            TEXT NOT NULL,
  request_id       TEXT NOT NULL,
  arrival          INTEGER NOT NULL,
  state            INTEGER NOT NULL,
  exit_code        INTEGER NOT NULL,
  finished_unix_ms INTEGER NOT NULL,
  is_over          INTEGER NOT NULL,
  live             INTEGER NOT NULL, -- not finished, or an exit is unconfirmed
  record           BLOB
) STRICT;
CREATE UNIQUE INDEX job_id ON job (id);
CREATE UNIQUE INDEX job_request ON job (owner, request_id) WHERE request_id <> '';
CREATE INDEX job_live ON job (arrival) WHERE live = 1;
CREATE INDEX job_finished ON job (finished_unix_ms, id) WHERE is_over = 1;

CREATE TABLE attempt (
  seq     INTEGER PRIMARY KEY,
  job     TEXT NOT NULL,
  epoch   INTEGER NOT NULL,
  counter INTEGER NOT NULL,
  ended   INTEGER NOT NULL,
  owes    INTEGER NOT NULL, -- an exit of a rank is unconfirmed
  record  BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX attempt_token ON attempt (epoch, counter);
CREATE INDEX attempt_job ON attempt (job, epoch, counter, ended, owes);
CREATE UNIQUE INDEX attempt_open ON attempt (job) WHERE ended = 0;

CREATE TABLE node (
  id     TEXT PRIMARY KEY,
  record BLOB NOT NULL
) STRICT;
