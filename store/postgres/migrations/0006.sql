-- What leaders learn from, version 6: their one policy record, and the attempts that ended
-- and that it does not know yet. A leader of the version before notes none.
CREATE TABLE synapse.policy (
  one     boolean PRIMARY KEY DEFAULT true CHECK (one),
  epoch   bigint NOT NULL, -- of the write that it is of
  counter bigint NOT NULL,
  record  bytea NOT NULL
);
CREATE TABLE synapse.unlearned (
  epoch   bigint NOT NULL,
  counter bigint NOT NULL,
  PRIMARY KEY (epoch, counter)
);
