-- Schema version 6: the policy record with run-time statistics, and the ended attempts that it does not include yet. A
-- leader of the previous version notes no attempts.
CREATE TABLE synapse.policy (
  one     boolean PRIMARY KEY DEFAULT true CHECK (one),
  epoch   bigint NOT NULL, -- of the write that created it
  counter bigint NOT NULL,
  record  bytea NOT NULL
);
CREATE TABLE synapse.unlearned (
  epoch   bigint NOT NULL,
  counter bigint NOT NULL,
  PRIMARY KEY (epoch, counter)
);
