-- Schema version 7: the last queue configuration. A leader of the previous version ignores it.
CREATE TABLE synapse.queues (
  one     boolean PRIMARY KEY DEFAULT true CHECK (one),
  epoch   bigint NOT NULL, -- of the write that created it
  counter bigint NOT NULL,
  record  bytea NOT NULL
);
