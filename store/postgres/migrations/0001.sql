-- Schema version 1: the records of a leader. A record is sealed protobuf bytes. The other columns are for lookups and
-- constraints. Text is ordered by its bytes, as everywhere else in the program.

-- Fence: every transaction of a leader locks this row.
CREATE TABLE synapse.leader (
  one     boolean PRIMARY KEY DEFAULT true CHECK (one),
  epoch   bigint NOT NULL,
  arrival bigint NOT NULL
);
INSERT INTO synapse.leader VALUES (true, 0, 0);

-- The leader, and until when no other process may lead. A separate row, so that a renewal never waits for a
-- transaction.
CREATE TABLE synapse.lease (
  one    boolean PRIMARY KEY DEFAULT true CHECK (one),
  epoch  bigint NOT NULL,
  holder text NOT NULL,
  until  timestamptz NOT NULL
);
INSERT INTO synapse.lease VALUES (true, 0, '', '-infinity');

-- A pruned job keeps its row without a record, because its ID stays used.
CREATE TABLE synapse.job (
  id               text COLLATE "C" PRIMARY KEY,
  revision         bigint NOT NULL,
  writer_epoch     bigint NOT NULL,
  writer_counter   bigint NOT NULL,
  owner            text COLLATE "C" NOT NULL,
  request_id       text COLLATE "C" NOT NULL,
  arrival          bigint NOT NULL,
  state            integer NOT NULL,
  exit_code        integer NOT NULL,
  finished_unix_ms bigint NOT NULL,
  is_over          boolean NOT NULL,
  live             boolean NOT NULL, -- not finished, or an exit is unconfirmed
  record           bytea
);
CREATE UNIQUE INDEX job_request ON synapse.job (owner, request_id) WHERE request_id <> '';
CREATE INDEX job_live ON synapse.job (arrival) WHERE live;
CREATE INDEX job_finished ON synapse.job (finished_unix_ms, id) WHERE is_over;

CREATE TABLE synapse.attempt (
  epoch   bigint NOT NULL,
  counter bigint NOT NULL,
  job     text COLLATE "C" NOT NULL,
  ended   boolean NOT NULL,
  owes    boolean NOT NULL, -- an exit of a rank is unconfirmed
  record  bytea NOT NULL,
  PRIMARY KEY (epoch, counter)
);
CREATE INDEX attempt_job ON synapse.attempt (job, epoch, counter);
CREATE UNIQUE INDEX attempt_open ON synapse.attempt (job) WHERE NOT ended;

CREATE TABLE synapse.node (
  id     text COLLATE "C" PRIMARY KEY,
  record bytea NOT NULL
);
