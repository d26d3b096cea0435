-- The queues as they were described last, version 7. A leader of the version before goes by none.
CREATE TABLE synapse.queues (
  one     boolean PRIMARY KEY DEFAULT true CHECK (one),
  epoch   bigint NOT NULL, -- of the write that it is of
  counter bigint NOT NULL,
  record  bytea NOT NULL
);
