-- Schema version 9: the last reported line of each scheduler's audit log. A scheduler of the previous version reports
-- none.
CREATE TABLE synapse.head (
  scheduler text COLLATE "C" PRIMARY KEY,
  line      bigint NOT NULL,
  hash      text NOT NULL
);
